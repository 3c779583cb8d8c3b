"""What file systems limit: entries of a directory, names of a file, and moves to other file systems."""

import errno
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from auditing import audit
from dis_store import InvalidInputError, Root, Store
from dis_store.tree import MAX_ENTRIES
from dis_store.writing import addition
from disks import EXT4, be_able_to_mount, mounted
from effort import effort
from forked_commands import Caller
from trees import Blob, write_tree

pytestmark = pytest.mark.stress
# From 2,000 files on, the whole file system is waited for in place of each of them.
MANY = effort(2_100, 100_000)
TOO_MANY = effort(2_100, MAX_ENTRIES)


def test_an_object_of_many_files_is_added_verified_and_collected(
    memory: Path, caller: Caller
) -> None:
    source = memory / "source"
    source.mkdir()
    for number in range(MANY):
        (source / f"{number:06}").write_bytes(b"%d" % number)
    call = replace(caller, store=memory / "store")
    added = call("store", "add", "--name", "many", source)
    assert added.code == 0, added
    stored = Path(added.out.strip())
    names = os.listdir(stored)  # noqa: PTH208 - a hundred thousand paths are made for nothing
    assert len(names) == MANY
    assert all((stored / name).read_bytes() == b"%d" % int(name) for name in names[:: MANY // 100])
    assert call("store", "verify", "--all").code == 0
    assert audit(call.store) == []
    assert call("root", "remove", "many").code == 0
    assert call("gc").code == 0
    assert not stored.exists()
    assert audit(call.store) == []


def test_a_directory_of_more_entries_than_an_object_may_have_is_refused_before_anything_is_read(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addition, "MAX_ENTRIES", TOO_MANY)
    source = memory / "source"
    source.mkdir()
    first = source / "0"
    first.write_bytes(b"of all")
    for number in range(1, TOO_MANY + 1):
        # Where one file may not have as many names, others get the rest.
        if number % 1000 == 0:
            first = source / str(number)
            first.write_bytes(b"of all")
        else:
            os.link(first, source / str(number))
    first.chmod(0)
    with Store.open(memory / "store") as store:
        began = time.monotonic()
        with pytest.raises(InvalidInputError, match="cannot be added") as caught:
            addition.add_path(store, source)
        assert time.monotonic() - began < 60
        assert caught.value.cause == f"it holds more than {TOO_MANY} files"
        assert not store.objects()
    assert not any((memory / "store/tmp").iterdir())
    assert audit(memory / "store") == []
    (source / "1").unlink()
    first.chmod(0o600)
    if TOO_MANY < MAX_ENTRIES:
        with Store.open(memory / "store") as store:
            assert len(store.files(addition.add_path(store, source))) == TOO_MANY


def test_a_file_that_may_have_no_more_names_is_copied(memory: Path, caller: Caller) -> None:
    be_able_to_mount("mkfs.ext4", "losetup")
    EXT4.make(memory / "image")
    disk, source = memory / "disk", memory / "source"
    for directory in (disk, source):
        directory.mkdir()
    (source / "f").write_bytes(b"the same")
    (source / "g").write_bytes(b"not in the other")
    with mounted(memory / "image", disk, EXT4):
        call = replace(caller, store=disk / "store")
        with Store.open(call.store) as store:
            first = write_tree(store, {"f": Blob(b"the same")})
            store.set_root("first", Root(first))
            file = store.file_path(first, "f")
        with no_more_names(file, disk / "crowd"):
            added = call("store", "add", source)
            assert added.code == 0, added
            assert call("root", "add", "added", added.out.strip()).code == 0
            copy = Path(added.out.strip()) / "f"
            assert copy.read_bytes() == b"the same"
            assert not copy.samefile(file)
            assert call("store", "optimise").code == 0
            assert not copy.samefile(file)
            assert call("store", "verify", "--all").code == 0
        assert call("store", "optimise").code == 0
        assert copy.samefile(file)
        assert call("gc").code == 0
        assert audit(call.store) == []


@contextmanager
def no_more_names(file: Path, crowd: Path) -> Iterator[None]:
    """Give a file as many names as the file system allows."""
    crowd.mkdir()
    for number in range(70_000):
        try:
            os.link(file, crowd / str(number))
        except OSError as error:
            assert error.errno == errno.EMLINK  # noqa: PT017 - that it fails is the point
            break
    else:
        pytest.fail("the file system has no such limit")
    try:
        yield
    finally:
        subprocess.run(["rm", "-r", crowd], check=True)


@pytest.mark.parametrize("room", ["tmp", "trash", "links", "quarantine", "objects", "manifests"])
@pytest.mark.parametrize("other", [True, False], ids=["another disk", "the same disk"])
def test_a_room_that_is_mounted_is_refused_and_loses_nothing(
    tmp_path: Path, caller: Caller, room: str, other: bool
) -> None:
    """A directory of the same file system that is mounted cannot be told by its device, and nothing moves into it."""
    be_able_to_mount()
    source, mount = tmp_path / "source", caller.store / room
    source.mkdir()
    (source / "f").write_bytes(b"new")
    with Store.open(caller.store) as store:
        write_tree(store, {"f": Blob(b"garbage")})
        kept = write_tree(store, {"f": Blob(b"kept")})
        store.set_root("kept", Root(kept))
    how = ["-t", "tmpfs", "tmpfs"] if other else ["--bind", mount]
    subprocess.run(["mount", *how, mount], check=True)
    try:
        ended = [caller("store", "add", source), caller("gc")]
    finally:
        subprocess.run(["umount", mount], check=True)
    says = "lies on several file systems" if other else "does not lie on one file system"
    # Of a room that nothing of a command has to come to, nobody need know.
    assert {each.code for each in ended} <= ({5} if other else {0, 5})
    for each in ended:
        assert each.untold is None, each
        assert each.code == 0 or says in each.err
    assert [caller("store", "add", source).code, caller("gc").code] == [0, 0]
    with Store.open(caller.store) as store:
        assert store.read_bytes(kept, "f") == b"kept"
    assert audit(caller.store) == []
