"""What is said of a damaged tree: which thing, what was found, and what should be there."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from descriptors import nothing_left_open
from dis_store import Digest, FileEntry, Store, durability
from dis_store.integrity.inspection import FileCheck, hash_file, inspect, is_intact
from trees import Blob, write_text, write_tree

FILES = {"d/file": Blob(b"data"), "tool": Blob(b"tool", executable=True)}


@pytest.fixture
def digest(store: Store) -> Digest:
    return write_tree(store, FILES, {"ref": (write_text(store, "inner"), "text")})


def change(path: Path, data: bytes) -> None:
    mode = path.stat().st_mode
    path.chmod(0o644)
    path.write_bytes(data)
    path.chmod(mode)


def replace(path: Path, by: Callable[[], object]) -> None:
    path.parent.chmod(0o755)
    durability.remove_tree(path)
    by()
    path.parent.chmod(0o555)


SAID: dict[str, tuple[Callable[[Path], object], str]] = {
    "other bytes": (
        lambda top: change(top / "d/file", b"dat_"),
        f"changed: OBJECT/d/file (BLAKE3 {Digest.of(b'dat_')}, expected {Digest.of(b'data')})",
    ),
    "fewer bytes": (
        lambda top: change(top / "d/file", b"dat"),
        "changed: OBJECT/d/file (3 bytes, expected 4)",
    ),
    "another mode": (
        lambda top: (top / "tool").chmod(0o4755),
        "wrong mode: OBJECT/tool (4755, expected 0555)",
    ),
    "another mode of the top": (
        lambda top: top.chmod(0o700),
        "wrong mode: OBJECT (0700, expected 0555)",
    ),
    "nothing": (lambda top: replace(top / "tool", lambda: None), "missing: OBJECT/tool"),
    "too much": (
        lambda top: replace(top / "x", (top / "x").touch),
        "extra: OBJECT/x",
    ),
    "a link for a file": (
        lambda top: replace(top / "tool", lambda: (top / "tool").symlink_to("d/file")),
        "changed: OBJECT/tool (it is no regular file)",
    ),
    "a file for a link": (
        lambda top: replace(top / "ref", (top / "ref").touch),
        "changed: OBJECT/ref (it is no symlink)",
    ),
    "a link to elsewhere": (
        lambda top: replace(top / "ref", lambda: (top / "ref").symlink_to("/etc/passwd")),
        "changed: OBJECT/ref (it leads to '/etc/passwd')",
    ),
    "a link for a directory": (
        lambda top: replace(top / "d", lambda: (top / "d").symlink_to("/etc")),
        "changed: OBJECT/d (it is no directory)",
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_the_one_thing_that_is_wrong_is_said_with_what_was_expected(
    store: Store, digest: Digest, name: str
) -> None:
    damage, said = SAID[name]
    top = store.object_path(digest)
    tree = store.tree(digest)
    assert is_intact(top, tree)
    damage(top)
    report = store.verify([digest], jobs=1)
    assert [str(problem).replace(digest, "OBJECT") for problem in report.problems] == [said]
    # What was left by a crash is adopted only if it is right; that its top is still writable is no fault.
    assert is_intact(top, tree) == (name == "another mode of the top")


@pytest.mark.parametrize("kind", ["file", "link", "missing"])
def test_what_is_no_tree_at_all_is_said_so(store: Store, digest: Digest, kind: str) -> None:
    top, tree = store.object_path(digest), store.tree(digest)
    top.chmod(0o755)
    elsewhere = top.rename(store.path.parent / "elsewhere")
    if kind == "file":
        top.touch()
    elif kind == "link":
        top.symlink_to(elsewhere)
    (problem,) = inspect(top, tree).problems
    expected = ("missing", os.strerror(errno.ENOENT))
    if kind != "missing":
        expected = ("changed", "it is no directory")
    assert (problem.kind, problem.subject, problem.path, problem.detail) == (
        expected[0],
        digest,
        None,
        expected[1],
    )
    assert not is_intact(top, tree)


def refusing(
    monkeypatch: pytest.MonkeyPatch, place: Path, number: int, names: tuple[str, ...]
) -> None:
    """Let looks at one place fail."""
    for name in names:
        original = getattr(Path, name)

        def refused(path: Path, original: Callable[[Path], object] = original) -> object:
            if path == place:
                raise OSError(number, os.strerror(number), str(path))
            return original(path)

        monkeypatch.setattr(Path, name, refused)


@pytest.mark.parametrize("path", ["d", None])
def test_what_cannot_be_listed_is_unreadable_and_nothing_in_it_missing(
    store: Store, digest: Digest, monkeypatch: pytest.MonkeyPatch, path: str | None
) -> None:
    top, tree = store.object_path(digest), store.tree(digest)
    refusing(monkeypatch, top / (path or "."), errno.EIO, ("iterdir",))
    (problem,) = inspect(top, tree).problems
    assert (problem.kind, problem.path, problem.detail) == (
        "unreadable",
        path,
        os.strerror(errno.EIO),
    )


def test_a_top_that_cannot_be_looked_at_is_unreadable(
    store: Store, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, tree = store.object_path(digest), store.tree(digest)
    refusing(monkeypatch, top, errno.EIO, ("lstat",))
    (problem,) = inspect(top, tree).problems
    assert (problem.kind, problem.path, problem.detail) == (
        "unreadable",
        None,
        os.strerror(errno.EIO),
    )


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR])
@pytest.mark.parametrize("call", ["lstat", "iterdir", "open"])
def test_what_this_process_lacks_is_no_damage(
    store: Store, digest: Digest, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    top, tree = store.object_path(digest), store.tree(digest)
    if call == "open":

        def refuse(*_: object, **__: object) -> int:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "open", refuse)
        with pytest.raises(OSError, match=os.strerror(number)):
            hash_file(top / "tool")
        return
    refusing(monkeypatch, top, number, (call,))
    with pytest.raises(OSError, match=os.strerror(number)):
        inspect(top, tree)


@pytest.fixture
def check(tmp_path: Path) -> FileCheck:
    (tmp_path / "file").write_bytes(b"data")
    entry = FileEntry("a/file", 4, Digest.of(b"data"))
    return FileCheck("subject", entry, tmp_path / "file", (1, 2))


def test_a_file_is_judged_by_its_content_or_by_why_that_could_not_be_read(
    check: FileCheck, tmp_path: Path
) -> None:
    read: list[int] = []
    with nothing_left_open():
        assert hash_file(check.real, on_bytes=read.append) == Digest.of(b"data")
    assert sum(read) == 4
    assert check.judge(Digest.of(b"data")) is None
    (tmp_path / "link").symlink_to(check.real)
    for path, reason in (
        (tmp_path / "none", os.strerror(errno.ENOENT)),
        (tmp_path / "link", os.strerror(errno.ELOOP)),
    ):
        found = hash_file(path)
        assert isinstance(found, OSError)
        problem = check.judge(found)
        assert problem is not None
        assert str(problem) == f"unreadable: subject/a/file ({reason})"
    problem = check.judge(OSError("of no number"))
    assert problem is not None
    assert problem.detail == "of no number"
