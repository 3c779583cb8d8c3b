"""What these calls say is on the disk is there when they return, and what failed leaves nothing behind."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from descriptors import open_files
from dis_store import durability, platform_linux
from dis_store.durability import (
    ensure_directory,
    fsync_directory,
    fsync_file,
    make_directory,
    remove_tree,
    write_durably,
    write_new,
)
from waits import watch_waits


def fail_fsync(_: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def inode(path: Path) -> int:
    return path.stat().st_ino


@pytest.mark.parametrize(("wait", "is_file"), [(fsync_file, True), (fsync_directory, False)])
def test_what_is_named_is_waited_for_and_no_symlink_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait: Callable[[Path], None], is_file: bool
) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.touch() if is_file else real.mkdir()
    link.symlink_to(real)
    before = open_files()
    waits = watch_waits(monkeypatch, [])
    wait(real)
    assert [each.inode for each in waits] == [inode(real)]
    with pytest.raises(OSError, match="link"):
        wait(link)
    monkeypatch.setattr(os, "fsync", fail_fsync)
    with pytest.raises(OSError, match="Input/output error"):
        wait(real)
    assert open_files() <= before


def test_only_a_directory_is_waited_for_as_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        fsync_directory(tmp_path / "file")


def test_a_directory_is_made_once_and_nothing_else_is_taken_for_one(tmp_path: Path) -> None:
    place = tmp_path / "place"
    assert ensure_directory(place).st_ino == inode(place)
    assert ensure_directory(place).st_ino == inode(place)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(place)
    for name in ("file", "link"):
        with pytest.raises(NotADirectoryError) as refusal:
            ensure_directory(tmp_path / name)
        assert (refusal.value.errno, refusal.value.filename) == (
            errno.ENOTDIR,
            str(tmp_path / name),
        )
        assert refusal.value.strerror == os.strerror(errno.ENOTDIR)
    with pytest.raises(FileNotFoundError):
        ensure_directory(tmp_path / "none" / "place")


def test_a_directory_that_somebody_makes_meanwhile_is_as_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    lstat = Path.lstat

    def late(path: Path) -> os.stat_result:
        try:
            return lstat(path)
        except FileNotFoundError:
            os.mkdir(path)  # noqa: PTH102 - not the call that is looked at
            raise

    monkeypatch.setattr(Path, "lstat", late)
    assert ensure_directory(place).st_ino == inode(place)


def test_the_name_of_a_directory_is_waited_for_whoever_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = watch_waits(monkeypatch, [tmp_path / "place"])
    for _ in range(2):
        make_directory(tmp_path / "place")
    assert [wait.inode for wait in waits] == [inode(tmp_path)] * 2
    assert all(wait.named for wait in waits)


def test_a_directory_that_stays_is_waited_for_once_and_another_in_its_place_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    waits = watch_waits(monkeypatch, [])
    make_directory(place)
    make_directory(place, lasting=True)
    make_directory(place, lasting=True)
    assert len(waits) == 2
    make_directory(place)
    assert len(waits) == 3
    place.rename(tmp_path / "aside")
    make_directory(place, lasting=True)
    assert len(waits) == 4
    # And the same one under another name.
    make_directory(tmp_path / "aside", lasting=True)
    assert len(waits) == 5


def test_a_directory_whose_wait_failed_is_not_taken_for_lasting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = watch_waits(monkeypatch, [])
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail_fsync)
        with pytest.raises(OSError, match="Input/output error"):
            make_directory(tmp_path / "place", lasting=True)
    make_directory(tmp_path / "place", lasting=True)
    assert len(waits) == 1


@pytest.mark.parametrize("mode", [0o444, 0o555])
def test_a_new_file_is_whole_and_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    old = os.umask(0o077)
    waits = watch_waits(monkeypatch, [])
    try:
        write_new(tmp_path / "file", b"data", mode=mode)
        write_new(tmp_path / "later", b"more", wait=False)
    finally:
        os.umask(old)
    assert (tmp_path / "file").read_bytes() == b"data"
    assert (tmp_path / "file").stat().st_mode & 0o7777 == mode
    assert (tmp_path / "later").stat().st_mode & 0o7777 == 0o444
    assert [wait.inode for wait in waits] == [inode(tmp_path / "file")]


def test_a_new_file_belongs_to_its_writer_alone_until_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    write_all = platform_linux.write_all

    def watched(descriptor: int, data: bytes) -> None:
        modes.append(os.fstat(descriptor).st_mode & 0o777)
        write_all(descriptor, data)

    monkeypatch.setattr(durability, "write_all", watched)
    write_new(tmp_path / "file", b"data")
    assert modes == [0o600]


def test_a_new_file_takes_the_place_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"precious")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("there", "link"):
        with pytest.raises(FileExistsError):
            write_new(tmp_path / name, b"data")
    assert (tmp_path / "there").read_bytes() == b"precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "there"]


@pytest.mark.parametrize("step", ["write_all", "fchmod", "fsync"])
def test_a_new_file_that_is_not_whole_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    before = open_files()
    with monkeypatch.context() as patched:
        patched.setattr(durability if step == "write_all" else os, step, fail)
        with pytest.raises(OSError, match="Input/output error"):
            write_new(tmp_path / "file", b"data")
    assert list(tmp_path.iterdir()) == []
    assert open_files() <= before


def test_a_reader_sees_the_old_content_or_the_new_one_whole_and_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, temporary = tmp_path / "target", tmp_path / "temporary"
    temporary.write_bytes(b"left by somebody who died")
    waits = watch_waits(monkeypatch, [target])
    write_durably(temporary, target, b"data", mode=0o555)
    assert [(wait.inode, target in wait.named) for wait in waits] == [
        (inode(target), False),
        (inode(tmp_path), True),
    ]
    assert target.read_bytes() == b"data"
    assert target.stat().st_mode & 0o7777 == 0o555
    write_durably(temporary, target, b"other")
    assert (target.read_bytes(), target.stat().st_mode & 0o7777) == (b"other", 0o444)
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("is_gone", [False, True])
@pytest.mark.parametrize("failure", [OSError(errno.EIO, "no"), KeyboardInterrupt()])
def test_what_could_not_be_put_in_place_leaves_the_old_content_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, is_gone: bool
) -> None:
    target, temporary = tmp_path / "target", tmp_path / "temporary"
    target.write_bytes(b"old")

    def refuse(source: Path, _target: Path) -> None:
        if is_gone:
            source.unlink()
        raise failure

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(type(failure)) as refusal:
        write_durably(temporary, target, b"new")
    if isinstance(refusal.value, OSError):
        assert (refusal.value.errno, refusal.value.strerror) == (errno.EIO, "no")
        assert refusal.value.filename == str(target)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_tree_is_removed_whatever_its_modes_and_nothing_that_it_leads_to(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"precious")
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    (tree / "inner" / "file").write_bytes(b"x")
    (tree / "directory").symlink_to(outside)
    (tree / "inner" / "broken").symlink_to("nowhere")
    (tree / "inner").chmod(0o555)
    tree.chmod(0o555)
    (tmp_path / "link").symlink_to(outside)
    (tmp_path / "file").write_bytes(b"x")
    before = open_files()
    for name in ("tree", "link", "file", "missing", "missing/deep"):
        remove_tree(tmp_path / name)
    assert list(tmp_path.iterdir()) == [outside]
    assert (outside / "precious").read_bytes() == b"precious"
    assert outside.stat().st_mode & 0o777 == 0o777 & ~_umask()
    assert open_files() <= before


def test_a_directory_can_be_written_before_anything_is_taken_out_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "tree" / "inner"
    inner.mkdir(parents=True)
    for directory in (inner, inner.parent):
        (directory / "file").touch()
        directory.chmod(0o555)
    unlink = os.unlink
    modes: list[int] = []

    def watched(name: str, *, dir_fd: int) -> None:
        # Root would not need it.
        modes.append(os.fstat(dir_fd).st_mode & 0o700)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", watched)
    remove_tree(tmp_path / "tree")
    assert modes == [0o700, 0o700]


@pytest.mark.parametrize("call", ["stat", "unlink", "rmdir"])
def test_what_cannot_be_removed_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    place = tmp_path / "tree"
    place.mkdir()
    (place / "file").touch()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(PermissionError) as refusal:
            remove_tree(place)
    assert str(place) in str(refusal.value.filename)
    assert place.exists()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("call", ["stat", "unlink", "open", "rmdir"])
def test_what_another_process_removes_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    for name in ("a", "b"):
        (tree / name).write_bytes(b"x")
    original = getattr(os, call)
    passed: list[object] = []

    def raced(name: object, *arguments: object, **options: object) -> object:
        if name in ("a", "inner") and not passed:
            passed.append(name)
            # It looked, and then the other one was faster.
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(name))
        return original(name, *arguments, **options)

    monkeypatch.setattr(os, call, raced)
    before = open_files()
    try:
        remove_tree(tree)
    except OSError as error:
        # What the other one did not really remove keeps the top from going.
        assert error.errno == errno.ENOTEMPTY  # noqa: PT017 - only sometimes
    assert passed
    assert not (tree / "b").exists()
    assert open_files() <= before
