"""Processes that fetch, are killed, and go on; and several that want the same file."""

import hashlib
import os
import random
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dis_derivations.transport.client import Client
from dis_store import Store
from dis_store.digest import Digest, Sha256
from dis_store.writing.downloads import (
    SECONDS_KEPT,
    downloading,
    finish,
    stale_bytes,
    sweep_downloads,
    unfinished_bytes,
)
from file_server import Handler, Script, Served, serving
from processes import at_once, forked, waited_for
from transport_site import BYTES, CONDUCT, SHA256, Fetching

PIECE = CONDUCT.piece_bytes


def slowly(handler: Handler) -> bool:
    time.sleep(0.02)
    return False


def killed_midway(site: Fetching, after: int) -> None:
    """Fetch in a child that is killed when the server has sent some bytes."""
    site.script.act = slowly
    child = forked(site.fetch)
    while site.script.sent < after:
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    assert waited_for(child) == -signal.SIGKILL
    # What the server was about to send is sent to nobody.
    time.sleep(0.1)
    site.script.act = lambda _: False


@pytest.mark.parametrize("after", [1, 2 * PIECE, 5 * PIECE, 8 * PIECE])
def test_what_a_killed_process_had_fetched_is_not_fetched_again(site: Fetching, after: int) -> None:
    with Store.open(site.top):
        pass
    killed_midway(site, after)
    assert site.left() != []
    assert site.fetch(size=len(BYTES)) == BYTES
    assert site.script.sent <= len(BYTES) + CONDUCT.ranges * PIECE
    assert site.left() == []


@pytest.mark.parametrize("marks", [(("ETag", '"one"'),), ()], ids=["marked", "unmarked"])
def test_a_killed_process_loses_only_what_was_on_its_way(
    tmp_path: Path, marks: tuple[tuple[str, str], ...]
) -> None:
    """Of every range two pieces have come, and nothing more does: no range is whole, so none is in the journal."""
    ranges, read = 3, 1 << 18
    conduct = replace(CONDUCT, ranges=ranges, piece_bytes=1 << 20, silence_seconds=60.0)
    conduct = replace(conduct, slow_seconds=60.0, answer_seconds=60.0)
    data = random.Random(1).randbytes(ranges << 20)  # noqa: S311 - bytes of a test
    sha256 = Sha256(f"sha256:{hashlib.sha256(data).hexdigest()}")
    served = Served(data, marks[0][1] if marks else None)
    killed = threading.Event()

    def half(handler: Handler) -> bool:
        start, end = handler.asked or (0, None)
        end = min(end or len(data), len(data))
        told = ("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        handler.say(206, told, *marks, length=end - start)
        handler.body(data[start : start + 2 * read])
        killed.wait(60)
        return True

    with serving(Script({"/file": served}, act=half)) as running:
        site = Fetching(tmp_path / "store", running, Client.of(conduct, {}))
        with Store.open(site.top):
            pass
        child = forked(lambda: site.fetch(size=len(data), sha256=sha256))
        here = [data[start << 20 : (start << 20) + 2 * read] for start in range(ranges)]
        while not all(map(_contents(site).count, here)):
            time.sleep(0.01)
        time.sleep(0.1)  # from the bytes to the note of them
        os.kill(child, signal.SIGKILL)
        assert waited_for(child) == -signal.SIGKILL
        site.script.act = lambda _: False
        killed.set()
        sent = site.script.sent

        assert site.fetch(size=len(data), sha256=sha256) == data

        assert site.script.sent - sent == len(data) - ranges * 2 * read
        assert site.left() == []


def _contents(site: Fetching) -> bytes:
    return b"".join(path.read_bytes() for path in site.left())


def test_a_start_and_a_collection_keep_what_has_come(site: Fetching) -> None:
    with Store.open(site.top):
        pass
    killed_midway(site, 6 * PIECE)
    with Store.open(site.top) as store:
        assert unfinished_bytes(store._foundation.layout) > 0
        assert store.collect_garbage(dry_run=True).freed_bytes == 0
        assert store.collect_garbage().freed_bytes == 0
    sent = site.script.sent
    assert site.fetch() == BYTES
    assert site.script.sent - sent < len(BYTES)


def test_a_collection_removes_what_nobody_goes_on_with(site: Fetching) -> None:
    with Store.open(site.top):
        pass
    killed_midway(site, 6 * PIECE)
    (part,) = site.left()
    old = time.time() - SECONDS_KEPT - 60
    for path in (part.with_name("lock"), part.parent):
        os.utime(path, (old, old))
    with Store.open(site.top) as store:
        expected = store.collect_garbage(dry_run=True).freed_bytes
        assert expected == stale_bytes(store._foundation.layout) > 0
        assert store.collect_garbage().freed_bytes == expected
        assert sweep_downloads(store._foundation.layout) == 0
    assert list((site.top / "downloads").iterdir()) == []
    assert site.fetch() == BYTES


@pytest.mark.parametrize("waits", [False, True])
def test_after_a_restart_of_the_machine_only_what_the_disk_was_waited_for_counts(
    site: Fetching, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    with Store.open(site.top):
        pass
    conduct = replace(CONDUCT, sync_bytes=PIECE if waits else len(BYTES))
    site.client = Client.of(conduct, {})
    killed_midway(site, 6 * PIECE)
    monkeypatch.setattr("dis_derivations.transport.transfer.boot_id", lambda: "another")
    sent = site.script.sent
    assert site.fetch() == BYTES
    assert (site.script.sent - sent < len(BYTES)) is waits


def test_a_file_is_fetched_by_one_process_while_the_others_wait(site: Fetching) -> None:
    with Store.open(site.top):
        pass
    site.script.act = slowly
    at_once([lambda: site.fetch(sha256=SHA256)] * 3)
    # Who waited finds it whole, in the store or where it was fetched to.
    assert site.script.sent <= len(BYTES) + CONDUCT.ranges * PIECE
    assert site.left() == []
    with Store.open(site.top) as store:
        (digest,) = store.objects()
        assert store.verify([digest]).problems == ()


def test_a_download_that_somebody_holds_is_not_removed(site: Fetching) -> None:
    key = Digest.of(b"key")
    with Store.open(site.top) as store:
        foundation = store._foundation
        with downloading(foundation, key, lambda: None) as download:
            os.close(download.open()[0])
            old = time.time() - SECONDS_KEPT - 60
            for path in (download.directory / "lock", download.directory):
                os.utime(path, (old, old))
            sweep_downloads(foundation.layout)
            finish(foundation, key)
            assert download.part.exists()
        finish(foundation, key)
        assert not download.directory.exists()


@pytest.mark.parametrize("kind", ["symlink", "world", "pipe"])
def test_a_planted_part_is_not_written_to(site: Fetching, tmp_path: Path, kind: str) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    with (
        Store.open(site.top) as store,
        downloading(store._foundation, Digest.of(b"key"), lambda: None) as download,
    ):
        if kind == "symlink":
            download.part.symlink_to(victim)
        elif kind == "pipe":
            os.mkfifo(download.part)
        else:
            download.part.write_bytes(b"others can write to it")
            download.part.chmod(0o666)
        descriptor, may_write = download.open()
        assert os.fstat(descriptor).st_size == 0
        assert may_write
        os.close(descriptor)
    assert victim.read_bytes() == b"precious"


def test_downloads_are_for_their_user_alone(site: Fetching) -> None:
    site.fetch(register=False)
    (part,) = site.left()
    assert part.stat().st_mode & 0o777 == 0o600
    assert part.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_that_had_come_whole_is_taken_unless_the_server_has_another(site: Fetching) -> None:
    assert site.fetch(register=False) == BYTES
    sent, site.came = site.script.sent, 0
    assert site.fetch(register=False) == BYTES
    assert site.script.sent == sent
    assert site.came == len(BYTES)
    other = bytes(reversed(BYTES))
    site.script.files["/file"] = Served(other, '"two"')
    assert site.fetch() == other
