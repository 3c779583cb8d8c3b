"""Other bytes, other parts and what is no answer are found out, and nothing of them is believed."""

import re
from collections.abc import Callable

import pytest

from dis_derivations.transport.errors import TransferError, WrongSizeError
from dis_store.errors import DisError, MismatchError
from file_server import Handler, Served
from transfer_scripts import OTHER, PIECE, Once, chunked
from transport_site import BYTES, SHA256, Fetching


@pytest.mark.parametrize("etag", [None, '"one"'])
def test_other_bytes_are_refused_and_nothing_of_them_stays(
    site: Fetching, etag: str | None
) -> None:
    site.script.files["/file"] = Served(OTHER, etag)
    with pytest.raises(MismatchError) as caught:
        site.fetch(size=len(BYTES), sha256=SHA256)
    assert SHA256 in str(caught.value.cause)
    assert str(caught.value.cause).count("sha256:") == 2
    assert site.left() == []
    assert site.objects() == 0
    assert site.came == 0
    site.script.files["/file"] = Served(BYTES, etag)
    assert site.fetch(size=len(BYTES), sha256=SHA256) == BYTES


def test_another_size_is_refused_before_the_bytes_come(site: Fetching) -> None:
    for size in (len(BYTES) - 1, len(BYTES) + 1):
        with pytest.raises(WrongSizeError, match="300001"):
            site.fetch(size=size)
    assert site.script.sent <= 2 * PIECE


def test_what_is_too_long_is_read_no_further_than_shows_that(site: Fetching) -> None:
    site.script.act = chunked(BYTES)
    with pytest.raises(WrongSizeError, match="more than 1000"):
        site.fetch(size=1000, sha256=SHA256)


def test_a_file_that_changes_between_ranges_is_begun_anew(site: Fetching) -> None:
    def change(handler: Handler) -> bool:
        if len(site.script.requests) == 4:
            site.script.files["/file"] = Served(OTHER, '"two"')
        return False

    site.script.act = change
    assert site.fetch() == OTHER
    assert site.came == len(OTHER)


def test_a_file_that_changes_without_a_word_is_begun_anew(site: Fetching) -> None:
    """A server that knows no `If-Range` sends the part of another version, with its tag."""

    def change(handler: Handler) -> bool:
        if len(site.script.requests) == 4:
            site.script.files["/file"] = Served(OTHER, '"two"')
        del handler.headers["If-Range"]
        return False

    site.script.act = change
    assert site.fetch() == OTHER


def test_a_file_that_changes_every_time_is_given_up(site: Fetching) -> None:
    def change(handler: Handler) -> bool:
        site.script.files["/file"] = Served(BYTES, f'"{len(site.script.requests)}"')
        return False

    site.script.act = change
    with pytest.raises(TransferError, match="another version"):
        site.fetch()


def lying_part(**lies: int) -> Callable[[Handler], bool]:
    def act(handler: Handler) -> bool:
        assert handler.asked is not None
        start, end = handler.asked
        end = min(end or len(BYTES), len(BYTES))
        shift = lies.get("shift", 0) if start else 0
        said = {"start": start + shift, "end": end + shift, "total": len(BYTES), **lies}
        text = f"bytes {said['start']}-{said['end'] - 1}/{said['total']}"
        handler.say(206, ("ETag", '"one"'), ("Content-Range", text), length=end - start)
        handler.body(BYTES[start:end])
        return True

    return act


@pytest.mark.parametrize(
    "lies",
    [
        {"start": 7},
        {"end": 9},
        {"total": 12},
        {"total": 10**17},
        {"start": 40_000},
        {"shift": 7},
        {"shift": -7},
    ],
)
def test_a_part_that_is_not_the_one_that_was_asked_for_is_refused(
    site: Fetching, lies: dict[str, int]
) -> None:
    site.script.act = lying_part(**lies)
    with pytest.raises(DisError):
        site.fetch()
    assert site.objects() == 0


def test_a_part_without_its_place_is_refused(site: Fetching) -> None:
    def act(handler: Handler) -> bool:
        handler.say(206, ("ETag", '"one"'), length=PIECE)
        handler.body(BYTES[:PIECE])
        return True

    site.script.act = act
    with pytest.raises(TransferError, match="does not say which"):
        site.fetch()


@pytest.mark.parametrize(
    "line", [b"X: y\r\n" * 10, b"X" * 1000], ids=["many headers", "one long header"]
)
def test_headers_without_an_end_are_no_answer(site: Fetching, line: bytes) -> None:
    def act(handler: Handler) -> bool:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for _ in range(20_000):
            handler.wfile.write(line)
        return True

    site.script.act = act
    with pytest.raises(TransferError):
        site.fetch()


@pytest.mark.parametrize(
    "answer", [b"", b"220 mail ready\r\n", b"HTTP/1.1 999999\r\n\r\n", b"\0" * 99]
)
def test_what_is_not_http_is_no_answer(site: Fetching, answer: bytes) -> None:
    def act(handler: Handler) -> bool:
        handler.wfile.write(answer)
        handler.hang_up()
        return True

    site.script.act = act
    with pytest.raises(TransferError, match=re.escape(site.address().place)):
        site.fetch()
    site.script.act = Once(act)
    assert site.fetch() == BYTES


@pytest.mark.parametrize("encoding", ["gzip", "br", "x-made-up"])
def test_what_is_encoded_is_not_decoded(site: Fetching, encoding: str) -> None:
    def act(handler: Handler) -> bool:
        handler.say(200, ("Content-Encoding", encoding), length=10)
        handler.body(b"x" * 10)
        return True

    site.script.act = act
    with pytest.raises(TransferError, match="encoding"):
        site.fetch()
    assert {seen.headers["Accept-Encoding"] for seen in site.script.requests} == {"identity"}
