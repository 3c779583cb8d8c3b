"""Whatever a server does, a file arrives whole, or nothing of it is believed."""

import errno
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dis_derivations.transport.address import parse_address
from dis_derivations.transport.errors import RefusedRequestError, TransferError, WrongSizeError
from dis_store import Store
from dis_store.digest import Digest, Sha256
from dis_store.errors import DisError, InterruptedBuildError, InvalidInputError, MismatchError
from dis_store.hashing import hash_content
from dis_store.writing.arrivals import take_download
from dis_store.writing.downloads import Download
from file_server import Handler, Served, serving
from transport_site import BYTES, CONDUCT, SHA256, Fetching

OTHER = bytes(reversed(BYTES))
PIECE = CONDUCT.piece_bytes


class Once:
    """Does something at the first requests, and lets the server answer the others."""

    def __init__(self, action: Callable[[Handler], bool], times: int = 1) -> None:
        self.action, self.left = action, times

    def __call__(self, handler: Handler) -> bool:
        if self.left <= 0:
            return False
        self.left -= 1
        return self.action(handler)


def test_a_file_comes_in_ranges_and_each_byte_once(site: Fetching) -> None:
    assert site.fetch(size=len(BYTES), sha256=SHA256) == BYTES
    ranges = [seen.headers["Range"] for seen in site.script.requests]
    assert len(ranges) == len(set(ranges)) == -(-len(BYTES) // PIECE)
    assert site.script.sent == site.came == len(BYTES)
    assert site.left() == []


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1])
def test_short_files_come_as_well(site: Fetching, size: int) -> None:
    site.script.files["/file"] = Served(BYTES[:size])
    assert site.fetch() == BYTES[:size]


def test_a_server_that_gives_no_ranges_is_read_from_beginning_to_end(site: Fetching) -> None:
    site.script.ranges = False
    assert site.fetch() == BYTES
    assert site.script.sent == len(BYTES)


def test_parts_without_a_mark_of_their_version_are_not_put_together(site: Fetching) -> None:
    site.script.files["/file"] = Served(BYTES, etag=None)
    assert site.fetch() == BYTES
    assert "Range" not in site.script.requests[-1].headers


def test_parts_without_a_mark_are_put_together_where_the_digest_is_known(site: Fetching) -> None:
    site.script.files["/file"] = Served(BYTES, etag=None)
    assert site.fetch(sha256=SHA256) == BYTES
    assert site.script.sent == len(BYTES)


def test_a_date_is_a_mark(site: Fetching) -> None:
    site.script.files["/file"] = Served(BYTES, None, "Mon, 02 Nov 2026 10:00:00 GMT")
    assert site.fetch() == BYTES
    assert site.script.sent == len(BYTES)


def test_a_weak_tag_is_no_mark(site: Fetching) -> None:
    site.script.files["/file"] = Served(BYTES, 'W/"one"')
    assert site.fetch() == BYTES
    assert "If-Range" not in {name for seen in site.script.requests for name in seen.headers}


def chunked(data: bytes, *, whole: bool = True) -> Callable[[Handler], bool]:
    def act(handler: Handler) -> bool:
        handler.say(200, ("Transfer-Encoding", "chunked"), length=None)
        for start in range(0, len(data), 5000):
            piece = data[start : start + 5000]
            handler.body(b"%x\r\n%s\r\n" % (len(piece), piece))
        if whole:
            handler.wfile.write(b"0\r\n\r\n")
        else:
            handler.hang_up()
        return True

    return act


def test_a_file_of_unknown_length_comes_in_chunks(site: Fetching) -> None:
    site.script.act = chunked(BYTES)
    assert site.fetch() == BYTES


def test_chunks_without_an_end_are_not_the_file(site: Fetching) -> None:
    site.script.act = chunked(BYTES, whole=False)
    with pytest.raises(TransferError):
        site.fetch()
    site.script.act = Once(chunked(BYTES[:9000], whole=False))
    assert site.fetch() == BYTES


def endless(handler: Handler) -> bool:
    handler.say(200, ("Connection", "close"), length=None)
    handler.body(BYTES)
    handler.hang_up()
    return True


def test_the_end_of_a_connection_is_no_end_of_a_file(site: Fetching) -> None:
    site.script.act = endless
    with pytest.raises(TransferError, match="does not say how long"):
        site.fetch()
    assert site.fetch(sha256=SHA256) == BYTES


def short(handler: Handler) -> bool:
    handler.say(200, ("ETag", '"one"'), length=len(BYTES))
    handler.body(BYTES[:70_000])
    handler.hang_up()
    return True


def test_a_body_that_ends_too_early_is_gone_on_with(site: Fetching) -> None:
    site.script.act = Once(short)
    assert site.fetch() == BYTES
    assert site.script.sent == len(BYTES)
    assert site.script.requests[1].headers["Range"].startswith("bytes=70000-")


def test_bytes_behind_the_end_are_not_taken(site: Fetching) -> None:
    def long(handler: Handler) -> bool:
        handler.say(200, ("Connection", "close"), length=len(BYTES))
        handler.body(BYTES + b"more")
        handler.hang_up()
        return True

    site.script.act = long
    assert site.fetch() == BYTES


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


def test_answers_that_only_announce_an_answer_are_a_hang(site: Fetching) -> None:
    def act(handler: Handler) -> bool:
        latest = time.monotonic() + 4
        while time.monotonic() < latest:
            handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            time.sleep(0.01)
        return True

    site.script.act = Once(act)
    assert site.fetch() == BYTES


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


def test_a_file_is_looked_at_before_it_becomes_part_of_an_object(site: Fetching) -> None:
    seen: list[bytes] = []

    def check(path: str, file: Path) -> None:
        assert path == "file"
        seen.append(file.read_bytes())
        raise InvalidInputError("this file is refused")

    site.check = check
    with pytest.raises(InvalidInputError, match="refused"):
        site.fetch()
    assert seen == [BYTES]
    assert site.objects() == 0
    assert site.left() == []


def test_a_file_that_the_store_has_is_not_asked_for(site: Fetching) -> None:
    assert site.fetch() == BYTES
    asked = len(site.script.requests)
    assert site.fetch(site.address("/elsewhere"), sha256=SHA256) == BYTES
    assert len(site.script.requests) == asked


def test_a_file_that_has_rotted_in_the_store_is_fetched(site: Fetching) -> None:
    assert site.fetch() == BYTES
    (file,) = (site.top / "objects").glob("*/*/file")
    file.chmod(0o644)
    file.write_bytes(OTHER)
    assert site.fetch(site.address("/file"), sha256=SHA256, register=False) == BYTES


def test_mirrors_are_tried_in_order_and_those_that_fail_are_told(site: Fetching) -> None:
    script = site.script
    script.files |= {"/other": Served(OTHER), "/good": Served(BYTES)}
    places = [site.address(path) for path in ("/gone", "/other", "/good", "/never")]
    assert site.fetch(*places, sha256=SHA256) == BYTES
    assert "/never" not in script.paths
    assert [note.split(":")[0] for note in site.notes] == ["http", "http"]
    assert "404" in site.notes[0]
    assert "wanted" in site.notes[1]
    assert site.came == len(BYTES)


def test_when_no_mirror_has_it_each_is_told(site: Fetching) -> None:
    site.script.files["/other"] = Served(OTHER)
    with pytest.raises(MismatchError, match="2 places") as caught:
        site.fetch(site.address("/gone"), site.address("/other"), sha256=SHA256)
    assert "/gone" in str(caught.value.cause)
    assert "/other" in str(caught.value.cause)


def test_a_server_that_is_not_there_is_named(site: Fetching) -> None:
    with serving() as gone:
        pass
    with pytest.raises(TransferError, match="cannot be reached"):
        site.fetch(parse_address(gone.url("/file")))


def test_an_interruption_is_answered_at_once_and_the_next_fetch_goes_on(site: Fetching) -> None:
    def slow(handler: Handler) -> bool:
        if len(site.script.requests) > 5:
            time.sleep(0.3)
        return False

    def interrupted() -> None:
        if site.came > 3 * PIECE:
            raise InterruptedBuildError("interrupted")

    site.script.act, site.interrupted = slow, interrupted
    with pytest.raises(InterruptedBuildError):
        site.fetch()
    came = site.came
    sent, site.came, site.interrupted = site.script.sent, 0, lambda: None
    site.script.act = lambda _: False
    assert site.fetch() == BYTES
    assert site.script.sent - sent <= len(BYTES) - came + 4 * PIECE
    assert site.came == len(BYTES)


def slowly(_: Handler) -> bool:
    time.sleep(0.02)
    return False


def test_a_part_of_another_version_is_not_gone_on_with(site: Fetching) -> None:
    def interrupted() -> None:
        if site.came > 3 * PIECE:
            raise InterruptedBuildError("interrupted")

    site.interrupted = interrupted
    site.script.act = slowly
    with pytest.raises(InterruptedBuildError):
        site.fetch()
    site.interrupted = lambda: None
    site.script.files["/file"] = Served(OTHER, '"two"')
    site.came = 0
    assert site.fetch() == OTHER
    assert site.came == len(OTHER)


@pytest.mark.parametrize(
    "journal", [b"", b"{}", b"[1", b'{"format":1}', b"\xff", b'{"format":9,"size":3}']
)
def test_a_damaged_note_of_what_has_come_costs_a_download_and_no_more(
    site: Fetching, journal: bytes
) -> None:
    def interrupted() -> None:
        if site.came > 3 * PIECE:
            raise InterruptedBuildError("interrupted")

    site.interrupted = interrupted
    with pytest.raises(InterruptedBuildError):
        site.fetch()
    (part,) = site.left()
    part.with_name("journal").write_bytes(journal)
    site.interrupted = lambda: None
    assert site.fetch() == BYTES


def test_a_full_disk_is_told_and_what_has_come_is_kept(
    site: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.pwrite, 0

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        nonlocal calls
        calls += 1
        if calls > 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(DisError, match="full"):
        site.fetch()
    monkeypatch.undo()
    sent = site.script.sent
    assert site.fetch() == BYTES
    assert site.script.sent - sent < len(BYTES)


def test_a_disk_that_is_too_small_is_noticed_before_much_has_come(
    site: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fallocate(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fallocate)
    with pytest.raises(DisError, match="full"):
        site.fetch()
    assert site.script.sent <= 2 * PIECE


@pytest.mark.parametrize("etag", ['"one"', '"two"'])
def test_a_part_that_an_object_has_is_never_written_to(site: Fetching, etag: str) -> None:
    """A process that is killed between the row of an object and the removal of the part leaves two names."""
    site.fetch(register=False)
    (part,) = site.left()
    with Store.open(site.top) as store, store.new_tree() as tree:
        with part.open("rb") as file:
            content = hash_content(file.fileno())
        key = Digest(part.parent.name.partition("-")[0])
        take_download(tree, "file", Download(tree.foundation, key, part.parent), content)
        tree._afterwards.clear()
        digest = tree.register()
        site.script.files["/file"] = Served(OTHER, etag)
        # An older note, from before the rest had come.
        note = json.loads(part.with_name("journal").read_bytes())
        part.with_name("journal").write_text(json.dumps({**note, "arrived": [[0, 1000]]}))
        assert part.stat().st_nlink > 1
        assert site.fetch() == OTHER
        assert store.verify([digest]).problems == ()
