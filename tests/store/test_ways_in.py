"""How files come into the store: on real file systems that share blocks and that do not."""

import os
from pathlib import Path

import pytest

from auditing import audit
from dis_store import Store, WrittenFile, add_path, platform_linux
from disks import BTRFS, EXT4, XFS, FileSystem, be_able_to_mount, mounted

SIZE = 16 << 20


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> FileSystem:
    file_system: FileSystem = request.param
    be_able_to_mount(f"mkfs.{file_system.name}")
    file_system.make(tmp_path / "image")
    (tmp_path / "disk").mkdir()
    return file_system


@pytest.mark.parametrize("disk", [XFS, BTRFS], indirect=True, ids=["xfs", "btrfs"])
def test_where_blocks_can_be_shared_nothing_is_copied(disk: FileSystem, tmp_path: Path) -> None:
    with mounted(tmp_path / "image", tmp_path / "disk", disk) as top:
        source = top / "model"
        source.write_bytes(os.urandom(SIZE))
        with Store.open(top / "store") as store:
            os.sync()
            free = os.statvfs(top).f_bfree
            taken: list[WrittenFile] = []
            digest = add_path(store, source, on_file=taken.append)
            os.sync()
            used = (free - os.statvfs(top).f_bfree) * os.statvfs(top).f_frsize
            assert [file.way for file in taken] == ["reflink"]
            assert used < SIZE // 4
            # The source can be written to, and the object does not change.
            with source.open("r+b") as file:
                file.write(b"changed")
            assert store.verify([digest]).ok
        assert audit(top / "store") == []


@pytest.mark.parametrize("disk", [EXT4], indirect=True, ids=["ext4"])
def test_where_they_cannot_the_kernel_copies(disk: FileSystem, tmp_path: Path) -> None:
    with mounted(tmp_path / "image", tmp_path / "disk", disk) as top:
        source = top / "model"
        source.write_bytes(b"m" * SIZE)
        with Store.open(top / "store") as store:
            taken: list[WrittenFile] = []
            add_path(store, source, on_file=taken.append)
            assert [file.way for file in taken] == ["copy_file_range"]
            moved: list[WrittenFile] = []
            add_path(store, source, adopt=True, on_file=moved.append)
            assert [file.way for file in moved] == ["move"]


def test_where_the_kernel_cannot_copy_it_is_done_by_hand(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dis_store.writing.ingestion.clone_file", lambda *_: False)
    monkeypatch.setattr("dis_store.writing.ingestion.copy_range", lambda *_: None)
    source = tmp_path / "model"
    source.write_bytes(os.urandom(1 << 20))
    taken: list[WrittenFile] = []
    digest = add_path(store, source, on_file=taken.append)
    assert [file.way for file in taken] == ["copy"]
    assert store.read_bytes(digest, "model") == source.read_bytes()


def test_an_empty_file_is_not_copied_by_hand(store: Store, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with store.new_tree() as tree:
        assert tree.ingest("empty", tmp_path / "empty").way in ("reflink", "copy_file_range")


def test_what_the_system_does_not_offer_is_told_from_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source").write_bytes(b"content")
    with (tmp_path / "source").open("rb") as source, (tmp_path / "target").open("wb") as target:
        monkeypatch.delattr(os, "copy_file_range")
        assert platform_linux.copy_range(source.fileno(), target.fileno(), 10) is None
