"""A store on a disk of 24 MiB, which only root can mount."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditing import audit
from builds import build_of
from canned_stores import ARCHIVES, unpack
from dis_store import Digest, Root, Sha256, Store, UnfitEnvironmentError, add_path
from dis_store.layout import RESERVE_BYTES
from trees import Blob, write_text, write_tree


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m,nr_inodes=2000", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill_up(disk: Path, *, leave: int = 0) -> Path:
    """Fill the disk but for `leave` bytes; return the file that fills it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\x01" * (1 << 16))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        if leave:
            os.truncate(filler, filler.stat().st_size - leave)
    return filler


def test_a_collection_works_with_no_byte_free(disk: Path) -> None:
    path = disk / "store"
    with Store.open(path) as store:
        kept = write_text(store, "kept")
        store.set_root("name", Root(kept))
        for number in range(20):
            dead = write_tree(store, {"f": Blob(b"%d" % number * 50_000)})
            store.add_realisation(build_of(f"{number}", {"out": dead}))
    filler = fill_up(disk)
    with pytest.raises(UnfitEnvironmentError) as refusal, Store.open(path) as store:
        write_tree(store, {"f": Blob(b"x" * 100_000)})
    assert "dis gc" in str(refusal.value.hint)
    with Store.open(path) as store:
        report = store.collect_garbage()
        assert len(report.objects) == 20
        assert store.objects() == [kept]
        assert store.read_bytes(kept, "text") == b"kept"
    filler.unlink()
    with Store.open(path) as store:
        store.collect_garbage()
    assert (path / "reserve").stat().st_size == RESERVE_BYTES
    assert audit(path) == []


def test_whenever_the_disk_gets_full_nothing_is_half(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The early refusal would hide what this test is about.
    monkeypatch.setattr("dis_store.writing.room._OVERHEAD_BYTES", 0)
    monkeypatch.setattr("dis_store.writing.room._SPARE_INODES", 0)
    path = disk / "store"
    with Store.open(path) as store:
        kept = write_text(store, "kept")
    refused = 0
    for room in range(40):
        filler = fill_up(disk, leave=room * 4096)
        try:
            with Store.open(path) as store:
                write_something(store, room)
        except UnfitEnvironmentError as error:
            refused += 1
            assert "is full" in error.what  # noqa: PT017 - some tries have room
        filler.unlink()
        with Store.open(path) as store:
            # When only the index had no room, a whole tree may wait for the next try.
            assert {problem.kind for problem in store.verify(jobs=1).problems} <= {
                "tree without row"
            }
            write_something(store, room)
            assert store.verify(jobs=1).ok
            assert store.is_valid(kept)
    assert 5 < refused < 40
    assert audit(path) == []


def write_something(store: Store, number: int) -> None:
    digest = write_tree(store, {"a/b": Blob(b"%d" % number * 3000), "c": Blob(b"c")})
    store.add_realisation(build_of(f"{number}", {"out": digest}))
    store.set_root(f"{number}", Root(digest))


def test_a_disk_without_inodes_is_full(disk: Path) -> None:
    path = disk / "store"
    with Store.open(path) as store:
        digest = write_text(store, "x")
        used = 0
        with pytest.raises(OSError, match="No space left"):  # noqa: PT012 - whichever fails
            while True:
                (disk / f"{used}").touch()
                used += 1
        with pytest.raises(UnfitEnvironmentError, match="inodes"):
            write_text(store, "y")
        (disk / "0").unlink()
        assert store.is_valid(digest)
    for number in range(1, used):
        (disk / f"{number}").unlink()
    with Store.open(path) as store:
        write_text(store, "y")
    assert audit(path) == []


def test_a_store_that_does_not_fit_is_not_made(disk: Path) -> None:
    filler = fill_up(disk, leave=RESERVE_BYTES // 2)
    with pytest.raises(UnfitEnvironmentError, match="is full"):
        Store.open(disk / "store")
    filler.unlink()
    with Store.open(disk / "store") as store:
        write_text(store, "x")
    assert audit(disk / "store") == []


def test_a_full_index_is_a_full_disk(disk: Path) -> None:
    with Store.open(disk / "store") as store:
        digest = write_text(store, "x")
        filler = fill_up(disk)
        with pytest.raises(UnfitEnvironmentError, match="is full"):  # noqa: PT012 - whichever fails
            for number in range(10_000):
                store.remember_plan(digest, "v" * number, [digest])
        filler.unlink()
        store.remember_plan(digest, "value", [digest])
        assert store.recall_plan(digest) == "value"
        assert store.verify(jobs=1).ok


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_a_store_of_an_older_version_is_collected_with_no_byte_free(
    disk: Path, archive: Path
) -> None:
    path = unpack(archive, disk / "store")
    filler = fill_up(disk)
    with Store.open(path) as store:
        assert len(store.collect_garbage().objects) == 1
        assert len(store.objects()) == 2
    filler.unlink()
    assert audit(path) == []


def test_a_sha256_is_told_where_the_index_has_no_room_for_it(disk: Path, tmp_path: Path) -> None:
    source = tmp_path / "file"
    source.write_bytes(b"added")
    with Store.open(disk / "store") as store:
        store.protect(add_path(store, source))
        fill_up(disk)
        assert store.sha256_of(Digest.of(b"added")) == Sha256.of(b"added")
        assert store.has_content(Sha256.of(b"added"), 5)
        assert not store.has_content(Sha256.of(b"other"), 5)
