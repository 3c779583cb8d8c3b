"""A file arrives whole, however a server gives it: in ranges, in chunks, or from beginning to end."""

import pytest

from dis_derivations.transport.errors import TransferError
from file_server import Handler, Served
from transfer_scripts import PIECE, Once, chunked
from transport_site import BYTES, SHA256, Fetching


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
