"""Moving files into the store: whatever happens, the file is outside or inside, whole."""

import os
import shutil
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from auditing import audit
from dis_store import BuildError, IntegrityError, Store, add_path
from dis_store.writing import adoption
from processes import killed_before_call
from trees import Blob, write_tree

FILES = {"a": Blob(b"a" * 70_000), "d/b": Blob(b"b"), "d/c": Blob(b"b")}


def lay_out(place: Path) -> Path:
    for path, blob in FILES.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(blob.data)
    return place


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return lay_out(tmp_path / "source")


def test_a_moved_file_is_the_same_inode_and_nobody_else_has_it(store: Store, source: Path) -> None:
    inode = (source / "a").stat().st_ino
    digest = add_path(store, source, adopt=True)
    moved = store.file_path(digest, "a").stat()
    # One name in the object, one in links/.
    assert (moved.st_ino, moved.st_nlink, moved.st_mode & 0o777) == (inode, 2, 0o444)
    assert store.file_path(digest, "d/b").samefile(store.file_path(digest, "d/c"))


def test_an_open_writer_keeps_a_file_out(store: Store, source: Path) -> None:
    (source / "a").chmod(0o640)
    with (source / "a").open("r+b"), pytest.raises(BuildError, match="open for writing"):
        add_path(store, source, adopt=True)
    assert (source / "a").stat().st_mode & 0o777 == 0o640
    assert (source / "a").read_bytes() == FILES["a"].data
    assert add_path(store, source, adopt=True) == write_tree(store, FILES)


def test_a_file_with_another_name_is_copied_and_loses_only_this_name(
    store: Store, source: Path, tmp_path: Path
) -> None:
    os.link(source / "a", tmp_path / "other")
    digest = add_path(store, source, adopt=True)
    assert not source.exists()
    (tmp_path / "other").write_bytes(b"changed")
    assert store.read_bytes(digest, "a") == FILES["a"].data
    assert store.verify().ok


def test_a_file_that_cannot_have_a_second_name_is_copied(store: Store, source: Path) -> None:
    refusing = patch(
        "dis_store.writing.tree_writer.create_hard_link", side_effect=OSError(18, "EXDEV")
    )
    with refusing:
        digest = add_path(store, source, adopt=True)
    assert digest == write_tree(store, FILES)
    assert not source.exists()
    assert audit(store.path) == []


def test_a_source_is_kept_where_the_store_has_a_damaged_copy(store: Store, source: Path) -> None:
    digest = write_tree(store, FILES)
    damaged = store.file_path(digest, "a")
    damaged.chmod(0o644)
    damaged.write_bytes(b"x" * 70_000)
    damaged.chmod(0o444)
    with pytest.raises(IntegrityError, match="damaged"):
        add_path(store, source, adopt=True)
    assert (source / "a").read_bytes() == FILES["a"].data


def test_a_refused_registration_gives_files_their_modes_and_times_back(
    store: Store, source: Path
) -> None:
    (source / "a").chmod(0o664)
    before = (source / "a").stat()
    full = patch("dis_store.writing.registration.rename_noreplace", side_effect=OSError(28, "full"))
    with full, pytest.raises(Exception, match="is full"):
        add_path(store, source, adopt=True)
    now = (source / "a").stat()
    assert (now.st_mode, now.st_mtime_ns, now.st_nlink) == (before.st_mode, before.st_mtime_ns, 1)
    assert audit(store.path) == []


def test_a_source_that_was_replaced_meanwhile_stays(
    store: Store, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = adoption.check_stored

    def replacing(adopted: adoption.Adopted, stored: Path) -> None:
        if adopted.source.name == "a":
            adopted.source.unlink()
            adopted.source.write_bytes(b"new")
        original(adopted, stored)

    monkeypatch.setattr("dis_store.writing.addition.check_stored", replacing)
    with pytest.raises(BuildError, match="changed meanwhile"):
        add_path(store, source, adopt=True)
    assert (source / "a").read_bytes() == b"new"
    assert store.verify().ok


def adopt(path: Path, source: Path) -> None:
    with Store.open(path) as store:
        add_path(store, source, adopt=True)


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", ["moved", "copied"])
def test_an_adoption_may_be_killed_before_any_call(tmp_path: Path, stride: int, way: str) -> None:
    path = tmp_path / "store"
    Store.open(path).close()
    number = 0
    killed = True
    while killed:
        number += stride
        source = lay_out(tmp_path / f"source {number}")
        (source / "number").write_bytes(b"%d" % number)
        if way == "copied":
            for file in list(source.rglob("*")):
                if file.is_file():
                    os.link(file, tmp_path / f"{number}-{file.name}")
        killed = killed_before_call(number, partial(adopt, path, source))
        with Store.open(path) as store:
            whole = contents_of(number)
            held = {digest: store.is_valid(digest) for digest in store.objects()}
            assert all(held.values())
            for name, data in whole.items():
                outside = source / name
                inside = any(_holds(store, digest, name, data) for digest in held)
                assert inside or outside.read_bytes() == data, f"{name} lost at call {number}"
            assert store.verify().ok, f"killed before call {number}"
        # What is left of a directory makes another object, which must come in as well.
        if any(file.is_file() for file in source.rglob("*")):
            remove_empty_directories(source)
            adopt(path, source)
            assert not source.exists()
    assert number > 60
    assert audit(path) == []


def remove_empty_directories(top: Path) -> None:
    for directory in top.iterdir():
        if directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()


def contents_of(number: int) -> dict[str, bytes]:
    return {path: blob.data for path, blob in FILES.items()} | {"number": b"%d" % number}


def _holds(store: Store, digest: str, name: str, data: bytes) -> bool:
    file = store.path / "objects" / digest[:2] / digest / name
    return file.is_file() and file.read_bytes() == data


def test_a_full_disk_costs_no_file(store: Store, source: Path) -> None:
    for step in ("fsync_file", "make_directory", "write_new", "_enter_index"):
        full = patch(f"dis_store.writing.registration.{step}", side_effect=OSError(28, "full"))
        with full, pytest.raises(Exception, match="is full"):
            add_path(store, source, adopt=True)
        for name, blob in FILES.items():
            assert (source / name).read_bytes() == blob.data
    shutil.copytree(source, source.with_name("again"))
    assert add_path(store, source, adopt=True) == write_tree(store, FILES)
    assert store.verify().ok
