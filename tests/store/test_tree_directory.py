"""Entries of a tree are made below the directory that is open, wherever names lead that somebody else put there."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from descriptors import nothing_left_open
from dis_store.writing.tree_directory import (
    create_file,
    create_hard_link,
    create_link,
    remove_entry,
)


@pytest.fixture
def top(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "top").mkdir()
    (tmp_path / "source").write_bytes(b"source")
    descriptor = os.open(tmp_path / "top", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def write(top: int, path: str) -> None:
    os.close(create_file(top, path))


WAYS: dict[str, Callable[[int, str, str], object]] = {
    "a file": lambda top, path, _: write(top, path),
    "a link": create_link,
    "a second name": create_hard_link,
}


def test_a_new_file_can_be_written_and_read_back_by_its_writer_alone(
    tmp_path: Path, top: int
) -> None:
    mask = os.umask(0o277)
    try:
        descriptor = create_file(top, "a/b/file")
    finally:
        os.umask(mask)
    assert os.write(descriptor, b"data") == 4
    assert os.pread(descriptor, 10, 0) == b"data"
    os.close(descriptor)
    place = tmp_path / "top" / "a" / "b"
    assert (place / "file").read_bytes() == b"data"
    assert (place / "file").stat().st_mode & 0o7777 == 0o600
    assert [path.stat().st_mode & 0o7777 for path in (place, place.parent)] == [0o755, 0o755]


@pytest.mark.parametrize("way", WAYS)
def test_what_is_there_stays(tmp_path: Path, top: int, way: str) -> None:
    place, source = tmp_path / "top", str(tmp_path / "source")
    (place / "file").write_bytes(b"precious")
    (place / "link").symlink_to("nowhere")
    (place / "directory").mkdir()
    with nothing_left_open():
        for name in ("file", "link", "directory"):
            with pytest.raises(FileExistsError):
                WAYS[way](top, name, source)
        with pytest.raises(NotADirectoryError):
            WAYS[way](top, "file/below", source)
    assert (place / "file").read_bytes() == b"precious"
    assert not (place / "nowhere").exists()


@pytest.mark.parametrize("way", WAYS)
def test_a_directory_that_leads_elsewhere_is_not_entered(
    tmp_path: Path, top: int, way: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "top" / "a").symlink_to(outside)
    with nothing_left_open():
        for path in ("a/x", "a/b/x"):
            with pytest.raises(OSError, match=r"symbolic link|Not a directory"):
                WAYS[way](top, path, str(tmp_path / "source"))
        with pytest.raises(OSError, match=r"symbolic link|Not a directory"):
            remove_entry(top, "a/x")
    assert list(outside.iterdir()) == []


def test_a_link_says_what_it_was_given(tmp_path: Path, top: int) -> None:
    with nothing_left_open():
        create_link(top, "a/b/link", "../../else/where")
    assert str((tmp_path / "top/a/b/link").readlink()) == "../../else/where"


def test_a_second_name_is_that_of_the_file_itself(tmp_path: Path, top: int) -> None:
    source, link = tmp_path / "source", tmp_path / "link"
    link.symlink_to(source)
    with nothing_left_open():
        found = create_hard_link(top, "a/name", str(source))
        of_link = create_hard_link(top, "a/link", str(link))
    assert found == (source.stat().st_dev, source.stat().st_ino)
    assert (tmp_path / "top/a/name").samefile(source)
    # What a symlink leads to may change; it is no file of anybody's.
    assert of_link == (link.lstat().st_dev, link.lstat().st_ino)
    assert (tmp_path / "top/a/link").is_symlink()


def test_an_entry_is_removed_and_its_directories_stay(tmp_path: Path, top: int) -> None:
    write(top, "a/b/file")
    create_link(top, "a/link", str(tmp_path / "source"))
    with nothing_left_open():
        remove_entry(top, "a/b/file")
        remove_entry(top, "a/link")
        with pytest.raises(FileNotFoundError):
            remove_entry(top, "a/b/file")
    assert list((tmp_path / "top" / "a").iterdir()) == [tmp_path / "top" / "a" / "b"]
    assert (tmp_path / "source").read_bytes() == b"source"


def test_a_directory_that_somebody_makes_meanwhile_is_as_good(
    tmp_path: Path, top: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def late(name: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        mkdir(name, mode, dir_fd=dir_fd)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)

    monkeypatch.setattr(os, "mkdir", late)
    with nothing_left_open():
        write(top, "a/b/file")
    assert (tmp_path / "top/a/b/file").is_file()


def test_nothing_is_entered_that_lies_where_the_process_is(
    tmp_path: Path, top: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "a").mkdir(parents=True)
    (tmp_path / "here" / "a" / "file").write_bytes(b"precious")
    monkeypatch.chdir(tmp_path / "here")
    for path in ("a/new", "a/b/new"):
        write(top, path)
    with pytest.raises(FileNotFoundError):
        remove_entry(top, "a/file")
    assert [path.name for path in (tmp_path / "here" / "a").iterdir()] == ["file"]
    assert (tmp_path / "top" / "a" / "b" / "new").is_file()
