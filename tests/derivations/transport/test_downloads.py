"""What has come of a file, in the store and on its way into it; and several places that may have it."""

import errno
import json
import os
import time
from pathlib import Path

import pytest

from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import DisError, InterruptedBuildError, InvalidInputError, MismatchError
from dis_store.hashing import hash_content
from dis_store.writing.arrivals import take_download
from dis_store.writing.downloads import Download
from file_server import Handler, Served
from transfer_scripts import OTHER, PIECE
from transport_site import BYTES, SHA256, Fetching


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
