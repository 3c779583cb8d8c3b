"""Servers that refuse, want to be left alone, hang or break off."""

import time
from collections.abc import Callable

import pytest

from dis_derivations.transport.address import parse_address
from dis_derivations.transport.errors import RefusedRequestError, TransferError
from dis_store.digest import Sha256
from file_server import Handler, serving
from transfer_scripts import PIECE, Once
from transport_site import BYTES, CONDUCT, Fetching


def status(code: int, *headers: tuple[str, str]) -> Callable[[Handler], bool]:
    def act(handler: Handler) -> bool:
        handler.say(code, *headers)
        return True

    return act


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (401, "wants to know who asks"),
        (403, "does not give it"),
        (404, "not there"),
        (410, "is no more"),
        (418, "status 418"),
        (300, "status 300"),
        (204, "status 204"),
    ],
)
def test_a_refusal_is_told_at_once_with_the_server_that_said_it(
    site: Fetching, code: int, words: str
) -> None:
    site.script.act = status(code)
    with pytest.raises(RefusedRequestError, match=words) as caught:
        site.fetch()
    assert site.address().place in str(caught.value.cause)
    assert len(site.script.requests) == 1


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_what_may_be_better_later_is_asked_for_again(site: Fetching, code: int) -> None:
    site.script.act = Once(status(code), times=3)
    assert site.fetch() == BYTES
    site.script.act = status(code)
    with pytest.raises(TransferError, match=f"status {code}") as caught:
        site.fetch(sha256=Sha256(f"sha256:{'0' * 64}"))
    assert "again later" in str(caught.value.hint)


def test_nobody_comes_back_before_the_server_wants_it(site: Fetching) -> None:
    site.script.act = Once(status(429, ("Retry-After", "1")))
    start = time.monotonic()
    assert site.fetch() == BYTES
    assert time.monotonic() - start >= 1


@pytest.mark.parametrize("later", ["3600", "Fri, 01 Jan 2100 00:00:00 GMT", "9" * 400])
def test_a_server_that_wants_to_be_left_alone_for_long_is_given_up(
    site: Fetching, later: str
) -> None:
    site.script.act = status(503, ("Retry-After", later))
    with pytest.raises(TransferError):
        site.fetch()
    assert len(site.script.requests) == (4 if later.startswith("99") else 1)


def test_a_server_that_says_nothing_is_a_hang(site: Fetching) -> None:
    def hang(_: Handler) -> bool:
        time.sleep(1.2)
        return False

    site.script.act = Once(hang)
    assert site.fetch() == BYTES
    assert len(site.script.requests) > -(-len(BYTES) // PIECE)


def drip(handler: Handler, data: bytes) -> None:
    """Send a byte now and then, until the client has given up and asked again several times."""
    count = len(handler.script.requests) + 3 * CONDUCT.ranges
    for byte in data:
        if len(handler.script.requests) > count:
            return
        handler.wfile.write(bytes([byte]))
        time.sleep(0.05)


def test_a_body_that_only_drips_is_a_hang(site: Fetching) -> None:
    def act(handler: Handler) -> bool:
        assert handler.asked is not None
        start, end = handler.asked[0], min(handler.asked[1] or len(BYTES), len(BYTES))
        text = f"bytes {start}-{end - 1}/{len(BYTES)}"
        handler.say(206, ("ETag", '"one"'), ("Content-Range", text), length=end - start)
        drip(handler, BYTES[start:end])
        return True

    site.script.act = Once(act)
    assert site.fetch() == BYTES
    site.script.act = act
    with pytest.raises(TransferError, match="hangs"):
        site.fetch(sha256=Sha256(f"sha256:{'0' * 64}"))


def test_headers_that_only_drip_are_a_hang(site: Fetching) -> None:
    def act(handler: Handler) -> bool:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        drip(handler, b"x" * 100_000)
        return True

    site.script.act = Once(act)
    assert site.fetch() == BYTES


def test_answers_that_only_announce_an_answer_are_a_hang(site: Fetching) -> None:
    def act(handler: Handler) -> bool:
        latest = time.monotonic() + 4
        while time.monotonic() < latest:
            handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            time.sleep(0.01)
        return True

    site.script.act = Once(act)
    assert site.fetch() == BYTES


@pytest.mark.parametrize("every", [1500, 5000, 20_000])
def test_a_connection_that_breaks_again_and_again_is_gone_on_with(
    site: Fetching, every: int
) -> None:
    def act(handler: Handler) -> bool:
        assert handler.asked is not None
        start, end = handler.asked[0], min(handler.asked[1] or len(BYTES), len(BYTES))
        text = f"bytes {start}-{end - 1}/{len(BYTES)}"
        handler.say(206, ("ETag", '"one"'), ("Content-Range", text), length=end - start)
        handler.body(BYTES[start : min(end, start + every)])
        if end > start + every:
            handler.hang_up()
        return True

    site.script.act = act
    assert site.fetch() == BYTES
    assert site.script.sent == len(BYTES)


def test_a_server_that_is_not_there_is_named(site: Fetching) -> None:
    with serving() as gone:
        pass
    with pytest.raises(TransferError, match="cannot be reached"):
        site.fetch(parse_address(gone.url("/file")))
