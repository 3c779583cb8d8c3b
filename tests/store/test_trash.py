"""What is deleted leaves its place in one step, and the disk without anything that it did not own."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from descriptors import nothing_left_open
from dis_store.garbage_collection.trash import TrashBins, empty


@pytest.fixture
def trash(tmp_path: Path) -> Path:
    place = tmp_path / "trash"
    place.mkdir()
    return place


@pytest.fixture
def room(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "room").mkdir()
    descriptor = os.open(tmp_path / "room", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def fill(place: Path, names: str) -> None:
    for name in names.split():
        (place / name).mkdir()
        (place / name / "file").write_bytes(b"12345")
        (place / name).chmod(0o555)


def test_what_is_taken_is_in_the_trash_and_nowhere_else(
    tmp_path: Path, trash: Path, room: int
) -> None:
    fill(tmp_path / "room", "aa ab b0")
    (tmp_path / "room" / "a.json").write_bytes(b"{}")
    with nothing_left_open():
        with TrashBins(trash) as bins:
            assert bins.count == 0
            taken = [bins.take(name, room) for name in ("aa", "ab", "b0", "a.json", "a0")]
            assert taken == [True, True, True, True, False]
            assert bins.count == 4
        assert list((tmp_path / "room").iterdir()) == []
        # One bin for each first digit.
        found = sorted(path.name.rpartition("-")[2] for path in trash.iterdir())
        assert found == ["a", "b"]
        assert len([path for path in trash.rglob("*") if path.parent.parent == trash]) == 4
    told: list[int] = []
    with nothing_left_open():
        assert empty(trash, told.append) == 15
    assert list(trash.iterdir()) == []
    assert sorted(told) == [1, 3]


def test_two_collections_do_not_take_each_others_names(
    tmp_path: Path, trash: Path, room: int
) -> None:
    for _ in range(2):
        fill(tmp_path / "room", "aa ab")
        with TrashBins(trash) as bins:
            assert bins.take("aa", room)
            assert bins.take("ab", room)
    assert empty(trash) == 20
    assert list(trash.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_without_an_inode_can_be_freed(
    tmp_path: Path, trash: Path, room: int, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def full(path: Path, *_: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    fill(tmp_path / "room", "aa ab")
    with monkeypatch.context() as patched, TrashBins(trash) as bins:
        patched.setattr(Path, "mkdir", full)
        assert bins.take("aa", room)
        assert bins.take("ab", room)
    assert len(list(trash.iterdir())) == 2
    assert empty(trash) == 10


def test_a_bin_that_cannot_be_made_for_another_reason_is_an_error(
    tmp_path: Path, trash: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    fill(tmp_path / "room", "aa")
    monkeypatch.setattr(Path, "mkdir", refuse)
    with nothing_left_open(), TrashBins(trash) as bins, pytest.raises(OSError, match="output"):
        bins.take("aa", room)
    assert (tmp_path / "room" / "aa" / "file").exists()


def refusing_renames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rename as for everybody but root: a directory that cannot be written cannot be moved."""
    rename = os.rename

    def refused(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        mode = os.stat(source, dir_fd=src_dir_fd, follow_symlinks=False).st_mode
        if not mode & 0o200:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), source)
        rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", refused)


def test_who_may_not_move_a_read_only_tree_makes_it_writable_first(
    tmp_path: Path, trash: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "room", "aa")
    (tmp_path / "room" / "ab").write_bytes(b"x")
    (tmp_path / "room" / "ab").chmod(0o444)
    refusing_renames(monkeypatch)
    with TrashBins(trash) as bins:
        assert bins.take("aa", room)
        # The mode of a file has nothing to do with it: something else is wrong.
        with pytest.raises(PermissionError):
            bins.take("ab", room)
        assert bins.count == 1
    assert (tmp_path / "room" / "ab").stat().st_mode & 0o777 == 0o444
    (moved,) = next(trash.iterdir()).iterdir()
    assert moved.stat().st_mode & 0o777 == 0o700
    assert empty(trash) == 5


def test_a_refusal_that_is_not_about_modes_is_told(
    tmp_path: Path, trash: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    outside = tmp_path / "outside"
    outside.mkdir(mode=0o555)
    (tmp_path / "room" / "aa").mkdir(mode=0o755)
    (tmp_path / "room" / "ab").mkdir(mode=0o555)
    (tmp_path / "room" / "ac").symlink_to(outside)
    monkeypatch.setattr(os, "rename", refuse)
    with TrashBins(trash) as bins:
        for name in ("aa", "ab", "ac"):
            with pytest.raises(PermissionError):
                bins.take(name, room)
        assert bins.count == 0
    assert (tmp_path / "room" / "aa").stat().st_mode & 0o777 == 0o755
    assert outside.stat().st_mode & 0o777 == 0o555


def test_what_cannot_be_moved_is_not_said_to_be(
    tmp_path: Path, trash: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "room" / "aa").mkdir()
    monkeypatch.setattr(os, "rename", fail)
    with TrashBins(trash) as bins:
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            bins.take("aa", room)
        assert bins.count == 0


def test_only_what_goes_with_its_last_name_is_counted(tmp_path: Path, trash: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"k" * 1000)
    tree = trash / "bin-x-0" / "tree"
    (tree / "deep").mkdir(parents=True)
    os.link(kept, tree / "shared")
    (tree / "own").write_bytes(b"o" * 100)
    os.link(tree / "own", tree / "deep" / "own too")
    (tree / "deep" / "alone").write_bytes(b"a" * 10)
    (tree / "link").symlink_to(kept)
    for name in ("one", "two", "three"):
        (tree / name).mkdir()
        (tree / name / "file").write_bytes(b"0" * 1000)
    (trash / "bin-x-0" / "manifest").write_bytes(b"m" * 7)
    (trash / "old tree").mkdir()
    (trash / "old tree" / "file").write_bytes(b"1")
    (trash / "old file").write_bytes(b"22")
    assert empty(trash) == 3111
    assert list(trash.iterdir()) == []
    assert kept.read_bytes() == b"k" * 1000


def test_a_full_bin_is_told_of_in_pieces_and_counted_as_a_whole(trash: Path) -> None:
    (trash / "bin-x-0").mkdir()
    for number in range(250):
        (trash / "bin-x-0" / str(number)).mkdir()
        (trash / "bin-x-0" / str(number) / "file").write_bytes(b"12345")
    told: list[int] = []
    assert empty(trash, told.append) == 5 * 250
    assert told == [100, 100, 50]


def test_the_last_of_several_names_is_noticed_by_one_thread(trash: Path) -> None:
    for number in range(40):
        tree = trash / f"bin-x-{number}" / "tree"
        tree.mkdir(parents=True)
        if number:
            os.link(trash / "bin-x-0" / "tree" / "file", tree / "file")
        else:
            (tree / "file").write_bytes(b"x" * 1000)
    assert empty(trash) == 1000


def test_nothing_that_a_tree_leads_to_is_removed_or_changed(tmp_path: Path, trash: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "precious").write_bytes(b"precious")
    for place in (trash, trash / "bin-x-0", trash / "tree"):
        place.mkdir(exist_ok=True)
        (place / "link").symlink_to(outside)
    (trash / "bin-x-1").symlink_to(outside)
    outside.chmod(0o500)
    with pytest.raises(OSError, match=r"symbolic link|Not a directory"):
        empty(trash)
    (trash / "bin-x-1").unlink()
    assert empty(trash) == 0
    assert list(trash.iterdir()) == []
    assert outside.stat().st_mode & 0o777 == 0o500
    assert (outside / "precious").read_bytes() == b"precious"


def refusing_unlinks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete as for everybody but root: nothing goes out of a directory that cannot be written."""
    for name in ("unlink", "rmdir"):
        original = getattr(os, name)

        def refused(path: str, *, dir_fd: int, original: Callable[..., None] = original) -> None:
            if not os.fstat(dir_fd).st_mode & 0o200:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            original(path, dir_fd=dir_fd)

        monkeypatch.setattr(os, name, refused)


@pytest.mark.parametrize("user", [0, 1000], ids=["root without its powers", "another user"])
@pytest.mark.parametrize("names", ["a", "a/b", "a/b/c", "a b/c d e/f"])
def test_read_only_trees_are_deleted_by_whoever_may_not_write_them(
    trash: Path, monkeypatch: pytest.MonkeyPatch, names: str, user: int
) -> None:
    (trash / "bin-x-0").mkdir()
    for place in (trash, trash / "bin-x-0"):
        for name in names.split():
            (place / name).mkdir(parents=True)
            (place / name / "file").write_bytes(b"12345")
    for path in sorted(trash.rglob("*"), reverse=True):
        if path.is_dir() and path.name != "bin-x-0":
            path.chmod(0o555)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    refusing_unlinks(monkeypatch)
    with nothing_left_open():
        assert empty(trash) == 5 * 2 * len(names.split())
    assert list(trash.iterdir()) == []


def test_the_mode_of_the_trash_itself_stays_where_nothing_may_be_deleted(
    trash: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = (trash / "bin-x-0", trash)
    places[0].mkdir()
    for place in places:
        (place / "file").touch()
        place.chmod(0o555)
    refusing_unlinks(monkeypatch)
    with pytest.raises(PermissionError):
        empty(trash)
    assert [place.stat().st_mode & 0o777 for place in places] == [0o555, 0o555]


def test_what_may_not_even_be_opened_is_made_so(
    trash: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(trash, "aa")
    (trash / "aa").chmod(0)
    open_ = os.open
    refused: list[str] = []

    def refuse(path: str, flags: int, *arguments: int, dir_fd: int | None = None) -> int:
        if path == "aa" and not os.stat(path, dir_fd=dir_fd).st_mode & 0o400:
            refused.append(path)
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return open_(path, flags, *arguments, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    assert empty(trash) == 5
    assert refused
    assert list(trash.iterdir()) == []


def test_what_stays_refused_is_told_and_nothing_is_left_open(
    trash: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(trash, "aa bb")

    def refuse(path: str, *, dir_fd: int) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "unlink", refuse)
    for user in (0, 1000):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        with nothing_left_open(), pytest.raises(PermissionError):
            empty(trash)
    assert (trash / "aa" / "file").exists()


def test_several_may_empty_the_same_trash_at_once(trash: Path) -> None:
    def make() -> None:
        (trash / "bin-x-0").mkdir(exist_ok=True)
        for place in (trash / "aa", trash / "bin-x-0" / "bb", trash / "bin-x-0" / "cc"):
            (place / "inner").mkdir(parents=True, exist_ok=True)
            (place / "inner" / "file").write_bytes(b"12345")
        (trash / "bin-x-0" / "manifest").write_bytes(b"{}")

    def clear() -> None:
        empty(trash)

    for _ in range(10):
        make()
        threads = [threading.Thread(target=clear) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert list(trash.iterdir()) == []
