"""Making objects of files and directories outside the store."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from auditing import audit
from dis_store import Digest, InvalidInputError, Root, Store, add_path
from trees import Blob, write_tree


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a directory with three files, one of them executable, two of them equal."""
    directory = tmp_path / "model"
    (directory / "sub").mkdir(parents=True)
    (directory / "a.bin").write_bytes(b"a" * 5000)
    (directory / "sub" / "copy.bin").write_bytes(b"a" * 5000)
    (directory / "sub" / "tool").write_bytes(b"#!")
    (directory / "sub" / "tool").chmod(0o755)
    return directory


OBJECT = {
    "a.bin": Blob(b"a" * 5000),
    "sub/copy.bin": Blob(b"a" * 5000),
    "sub/tool": Blob(b"#!", executable=True),
}


@pytest.mark.parametrize("adopt", [False, True])
@pytest.mark.parametrize("jobs", [1, 3])
def test_a_directory_becomes_the_object_of_its_files(
    store: Store, model: Path, adopt: bool, jobs: int
) -> None:
    digest = add_path(store, model, adopt=adopt, jobs=jobs)
    assert digest == write_tree(store, OBJECT)
    assert model.exists() is not adopt
    assert audit(store.path) == []


@pytest.mark.parametrize("adopt", [False, True])
def test_a_file_becomes_an_object_in_which_it_keeps_its_name(
    store: Store, model: Path, adopt: bool
) -> None:
    digest = add_path(store, model / "a.bin", adopt=adopt)
    assert digest == write_tree(store, {"a.bin": OBJECT["a.bin"]})
    assert (model / "a.bin").exists() is not adopt
    assert (model / "sub").is_dir()


def test_what_is_copied_is_not_touched(store: Store, model: Path) -> None:
    before = [(path, path.lstat()) for path in model.rglob("*")]
    add_path(store, model)
    for path, status in before:
        now = path.lstat()
        assert (now.st_ino, now.st_mode, now.st_mtime_ns, now.st_nlink) == (
            status.st_ino,
            status.st_mode,
            status.st_mtime_ns,
            status.st_nlink,
        )


def a_symlink(place: Path) -> None:
    place.symlink_to("/etc/passwd")


def a_pipe(place: Path) -> None:
    os.mkfifo(place)


def a_socket(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(place))


def an_empty_directory(place: Path) -> None:
    place.mkdir()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (a_symlink, "symlink"),
        (a_pipe, "no regular file"),
        (a_socket, "no regular file"),
        (an_empty_directory, "empty directory"),
    ],
)
@pytest.mark.parametrize("adopt", [False, True])
def test_what_is_no_file_is_refused_before_anything_is_read(
    store: Store, model: Path, make: Callable[[Path], None], reason: str, adopt: bool
) -> None:
    make(model / "x")
    with pytest.raises(InvalidInputError, match=reason):
        add_path(store, model, adopt=adopt)
    assert store.objects() == []
    assert (model / "a.bin").stat().st_mode & 0o200


@pytest.mark.parametrize("name", [b"a\nb", b"\xff", b"NUL.txt", b"A.BIN", b"a:b", b"end."])
def test_a_hostile_name_is_refused(store: Store, model: Path, name: bytes) -> None:
    (Path(os.fsdecode(os.fsencode(model) + b"/" + name))).write_bytes(b"x")
    with pytest.raises(InvalidInputError, match=r"the path .* is refused"):
        add_path(store, model, adopt=True)
    assert (model / "a.bin").exists()


def test_a_path_that_is_not_there_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="No such file"):
        add_path(store, tmp_path / "none")


def test_a_symlink_is_refused_at_the_top_too(store: Store, model: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(model)
    with pytest.raises(InvalidInputError, match="symlink"):
        add_path(store, tmp_path / "link", adopt=True)


@pytest.mark.parametrize("adopt", [False, True])
def test_the_store_does_not_swallow_itself(store: Store, tmp_path: Path, adopt: bool) -> None:
    digest = write_tree(store, OBJECT)
    for path in (store.path, store.object_path(digest), tmp_path):
        with pytest.raises(InvalidInputError, match="the store"):
            add_path(store, path, adopt=adopt)
    assert store.verify().ok


@pytest.mark.parametrize("adopt", [False, True])
def test_an_object_can_get_a_root_before_a_file_that_moves_loses_its_name(
    store: Store, model: Path, adopt: bool
) -> None:
    seen: list[tuple[Digest, bool]] = []

    def keep(digest: Digest) -> None:
        store.set_root("kept", Root(digest))
        seen.append((digest, (model / "a.bin").exists() and (model / "sub" / "tool").exists()))

    digest = add_path(store, model, adopt=adopt, keep=keep)
    assert seen == [(digest, True)]
    store.collect_garbage()
    assert audit(store.path) == []
    assert store.is_valid(digest)


def test_files_stay_where_they_are_when_their_object_gets_no_root(
    store: Store, model: Path
) -> None:
    def fail(_digest: Digest) -> None:
        raise InvalidInputError("no root for it")

    with pytest.raises(InvalidInputError, match="no root for it"):
        add_path(store, model, adopt=True, keep=fail)
    assert (model / "a.bin").read_bytes() == b"a" * 5000
    assert add_path(store, model, adopt=True) == write_tree(store, OBJECT)
    assert audit(store.path) == []
