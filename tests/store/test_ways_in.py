"""How files come into the store: on real file systems that share blocks and that do not."""

import os
from pathlib import Path

import pytest

from auditing import audit
from dis_store import Store, WrittenFile, add_path
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
def test_where_they_cannot_it_is_copied(disk: FileSystem, tmp_path: Path) -> None:
    with mounted(tmp_path / "image", tmp_path / "disk", disk) as top:
        source = top / "model"
        source.write_bytes(b"m" * SIZE)
        with Store.open(top / "store") as store:
            taken: list[WrittenFile] = []
            add_path(store, source, on_file=taken.append)
            assert [file.way for file in taken] == ["copy"]
            moved: list[WrittenFile] = []
            add_path(store, source, adopt=True, on_file=moved.append)
            assert [file.way for file in moved] == ["move"]
