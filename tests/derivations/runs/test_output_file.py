"""A file outside the store appears whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from dis_derivations.runs.output_file import OutputExistsError, appearing, write_file
from dis_store.errors import InvalidInputError, UnfitEnvironmentError
from file_identity import identity


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_file_is_written_with_its_directories(tmp_path: Path) -> None:
    write_file(tmp_path / "a" / "b" / "file", b"1")
    write_file(tmp_path / "a" / "b" / "file", b"2", replace=True)
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"2"
    assert names(tmp_path / "a" / "b") == ["file"]


def test_nothing_is_left_of_a_block_that_failed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"before")

    def fail() -> None:
        with appearing(tmp_path / "file") as stream:
            stream.write(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"before"


def test_what_is_there_is_kept_when_it_must_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("file", "dangling"):
        with pytest.raises(InvalidInputError, match="there already"):
            write_file(tmp_path / name, b"new", replace=False)
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_a_file_that_comes_up_in_the_meantime_is_kept(tmp_path: Path) -> None:
    def write() -> None:
        with appearing(tmp_path / "file", replace=False) as stream:
            stream.write(b"new")
            (tmp_path / "file").write_bytes(b"theirs")

    with pytest.raises(InvalidInputError, match="there already"):
        write()
    assert (tmp_path / "file").read_bytes() == b"theirs"
    assert names(tmp_path) == ["file"]


def test_without_hard_links_a_file_is_kept_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    write_file(tmp_path / "file", b"new", replace=False)
    with pytest.raises(InvalidInputError, match="there already"):
        write_file(tmp_path / "file", b"other", replace=False)
    assert (tmp_path / "file").read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


def test_a_file_with_the_very_content_is_left_as_it_is(tmp_path: Path) -> None:
    write_file(tmp_path / "file", b"same" * 1_000_000)
    before = identity(tmp_path / "file")
    write_file(tmp_path / "file", b"same" * 1_000_000)
    assert identity(tmp_path / "file") == before
    for other in (b"same" * 999_999, b"same" * 1_000_001, b"same" * 999_999 + b"sane"):
        with pytest.raises(OutputExistsError, match="other content"):
            write_file(tmp_path / "file", other)
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("replace", [False, True])
def test_a_directory_or_a_device_is_never_replaced(tmp_path: Path, replace: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    for target, says in ((tmp_path, "is a directory"), (tmp_path / "pipe", "no regular file")):
        with pytest.raises(OutputExistsError, match=says):
            write_file(target, b"new", replace=replace)
    assert names(tmp_path) == ["pipe"]


def test_a_place_that_refuses_is_an_unfit_environment(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for target in (tmp_path / "file" / "below", Path("/proc/dis-file")):
        with pytest.raises(UnfitEnvironmentError, match="cannot be written"):
            write_file(target, b"")
