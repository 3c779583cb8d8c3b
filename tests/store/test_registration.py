import errno
import os
from pathlib import Path
from typing import Any

import pytest

from auditing import audit
from dis_store import (
    Digest,
    IntegrityError,
    Store,
    UnfitEnvironmentError,
    durability,
    platform_linux,
)
from dis_store.writing import registration
from file_identity import identity
from trees import Blob, write_text, write_tree
from waits import watch_waits

FILES = {"a/b": Blob(b"one"), "c": Blob(b"two", executable=True)}


@pytest.fixture
def digest(tmp_path: Path) -> Digest:
    with Store.open(tmp_path / "model") as model:
        return write_tree(model, FILES)


def test_registering_again_changes_nothing(store: Store) -> None:
    digest = write_tree(store, FILES)
    before = identity(store.object_path(digest))
    assert write_tree(store, FILES) == digest
    assert identity(store.object_path(digest)) == before
    assert store.objects() == [digest]


def place(store: Store, digest: Digest, files: dict[str, bytes]) -> Path:
    """Put a tree where the object belongs, as a crash or an intruder would have left it."""
    top = store.object_path(digest)
    for name, data in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o555 if name == "c" else 0o444)
    (top / "a").chmod(0o555)
    return top


def test_a_tree_that_a_crash_left_is_adopted_when_it_is_right(store: Store, digest: Digest) -> None:
    left = place(store, digest, {"a/b": b"one", "c": b"two"})
    inode = left.stat().st_ino
    assert write_tree(store, FILES) == digest
    assert left.stat().st_ino == inode
    assert store.read_bytes(digest, "a/b") == b"one"
    assert list(store.path.joinpath("quarantine").iterdir()) == []


@pytest.mark.parametrize(
    "files",
    [
        {"a/b": b"one", "c": b"TWO"},
        {"a/b": b"one"},
        {"a/b": b"one", "c": b"two", "extra": b""},
        {"a/b": b"onetwo", "c": b"two"},
    ],
)
def test_a_tree_that_is_in_the_way_is_quarantined_when_it_is_wrong(
    store: Store, monkeypatch: pytest.MonkeyPatch, digest: Digest, files: dict[str, bytes]
) -> None:
    place(store, digest, files | ({"a/b": b"one"} if "a/b" not in files else {}))
    waits = watch_waits(monkeypatch, [])
    assert write_tree(store, FILES) == digest
    assert (store.path / "quarantine").stat().st_ino in {wait.inode for wait in waits}
    assert store.read_bytes(digest, "c") == b"two"
    (kept,) = store.path.joinpath("quarantine").iterdir()
    assert kept.name.startswith(digest)
    assert audit(store.path) == [f"quarantine/{kept.name}"]


@pytest.mark.parametrize("kind", ["a link", "a file"])
def test_what_is_no_tree_and_in_the_way_is_quarantined_as_it_is(
    store: Store, tmp_path: Path, digest: Digest, kind: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    outside.chmod(0o711)
    target = store.object_path(digest)
    target.parent.mkdir()
    if kind == "a link":
        target.symlink_to(outside)
    else:
        target.write_bytes(b"precious")
        target.chmod(0o600)
    before = target.lstat()
    assert write_tree(store, FILES) == digest
    (kept,) = store.path.joinpath("quarantine").iterdir()
    assert (kept.lstat().st_ino, kept.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert outside.stat().st_mode & 0o777 == 0o711
    assert store.verify([digest], jobs=1).ok


def test_an_object_whose_tree_somebody_deleted_is_not_valid_and_can_be_written_again(
    store: Store,
) -> None:
    inner = write_text(store, "inner")
    digest = write_tree(store, FILES, {"ref": (inner, None)})
    durability.remove_tree(store.object_path(digest))
    assert not store.is_valid(digest)
    assert not store.protect(digest)
    with pytest.raises(IntegrityError):
        store.tree(digest)
    assert write_tree(store, FILES, {"ref": (inner, None)}) == digest
    assert store.protect(digest)
    assert audit(store.path) == []


def shared_name(store: Store, data: bytes) -> Path:
    name = Digest.of(data)
    return store.path / "links" / name[:2] / name


def test_a_shared_inode_that_differs_is_quarantined_and_not_used(store: Store) -> None:
    shared = shared_name(store, b"right")
    shared.parent.mkdir(parents=True)
    shared.write_bytes(b"wrong")
    shared.chmod(0o444)
    digest = write_tree(store, {"f": Blob(b"right")})
    assert store.read_bytes(digest, "f") == b"right"
    assert shared.read_bytes() == b"right"
    (kept,) = store.path.joinpath("quarantine").iterdir()
    assert kept.read_bytes() == b"wrong"


@pytest.mark.parametrize("kind", ["symlink", "writable"])
def test_a_shared_inode_of_another_kind_is_not_used(
    store: Store, tmp_path: Path, kind: str
) -> None:
    shared = shared_name(store, b"right")
    shared.parent.mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.write_bytes(b"right")
    if kind == "symlink":
        shared.symlink_to(outside)
    else:
        os.link(outside, shared)
    digest = write_tree(store, {"f": Blob(b"right")})
    assert not store.file_path(digest, "f").is_symlink()
    assert not store.file_path(digest, "f").samefile(outside)
    # The name is that of the right one now.
    assert store.file_path(digest, "f").samefile(shared)
    assert outside.read_bytes() == b"right"
    assert audit(store.path) == []


def test_a_copy_that_changed_after_it_was_hashed_is_refused(store: Store) -> None:
    write_tree(store, {"f": Blob(b"right")})
    with store.new_tree() as tree:
        tree.write_bytes("g", b"right")
        (space,) = store.path.joinpath("tmp").iterdir()
        (space / "tree" / "g").write_bytes(b"wrong")
        with pytest.raises(IntegrityError, match="not what was written"):
            tree.register()
    assert audit(store.path) == []


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_a_link_that_fails_for_a_reason_of_its_own_ends_the_registration(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    link = os.link

    def refuse(source: Any, target: Any, **options: Any) -> None:
        # The manifest has two names for a moment, which is another matter.
        if "manifest.json" not in str(source):
            raise OSError(number, os.strerror(number))
        link(source, target, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", refuse)
        with pytest.raises(UnfitEnvironmentError, match=os.strerror(number)):
            write_tree(store, FILES)
    assert audit(store.path) == []


@pytest.mark.parametrize("number", [errno.EMLINK, errno.EPERM, errno.ENOSPC])
def test_files_are_copies_where_they_cannot_share(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    link = os.link

    def refuse(source: Any, target: Any, **options: Any) -> None:
        if "manifest.json" in str(source):
            link(source, target, **options)
        else:
            raise OSError(number, os.strerror(number))

    one = write_tree(store, {"f": Blob(b"same")})
    monkeypatch.setattr(os, "link", refuse)
    other = write_tree(store, {"g": Blob(b"same"), "h": Blob(b"new")})
    assert not store.file_path(one, "f").samefile(store.file_path(other, "g"))
    assert audit(store.path) == []


STEPS = [
    (registration, "_seal"),
    (registration, "write_new"),
    (registration, "_place_tree"),
    (registration, "_publish_manifest"),
    (registration, "_enter_index"),
]


@pytest.mark.parametrize(("module", "name"), STEPS, ids=[name for _, name in STEPS])
@pytest.mark.parametrize(("moment", "number"), [("before", errno.ENOSPC), ("after", errno.EIO)])
def test_an_error_at_any_step_registers_nothing_and_leaves_nothing_half(
    store: Store, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, moment: str, number: int
) -> None:
    step = getattr(module, name)

    def failing(*arguments: Any, **options: Any) -> None:
        if moment == "after":
            step(*arguments, **options)
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(module, name, failing)
        with pytest.raises(UnfitEnvironmentError):
            write_tree(store, FILES)
    # An index that could not be written leaves a whole orphan; everything else leaves nothing at all.
    assert audit(store.path, orphans_allowed=name == "_enter_index") == []
    digest = write_tree(store, FILES)
    assert store.read_bytes(digest, "c") == b"two"
    assert audit(store.path) == []


def test_a_full_disk_names_the_command_that_frees_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")

    monkeypatch.setattr("dis_store.writing.file_writer.write_all", full)
    with pytest.raises(UnfitEnvironmentError) as refusal:
        write_text(store, "x")
    assert "is full" in refusal.value.what
    assert "somewhere" in str(refusal.value.cause)
    assert "dis gc" in str(refusal.value.hint)
    assert refusal.value.exit_code == 5


def count_fsyncs(monkeypatch: pytest.MonkeyPatch, fail_at: int) -> list[int]:
    """Fail the fsync number `fail_at` once; return the list of the inodes that were synchronised."""
    seen: list[int] = []
    fsync = os.fsync

    def counted(descriptor: int) -> None:
        seen.append(os.fstat(descriptor).st_ino)
        if len(seen) == fail_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    return seen


def test_a_failed_fsync_is_final_wherever_it_happens(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.objects() == []  # the index is made before the counting begins
    at = 0
    while True:
        at += 1
        with monkeypatch.context() as patched:
            # Each try is as the first of a process, which does not yet know that the shards are on the disk.
            patched.setattr("dis_store.durability._LASTING", set())
            seen = count_fsyncs(patched, at)
            try:
                digest = write_tree(store, FILES)
            except UnfitEnvironmentError as error:
                assert "Input/output error" in str(error.cause)  # noqa: PT017 - the last try succeeds
                # Nobody asks again: the second answer would be that all is well.
                assert len(seen) == at
                assert store.objects() == []
                # Nobody shares what may not be on the disk.
                for path in (store.path / "links").glob("*/*"):
                    assert path.stat().st_ino in seen[:-1]
                continue
        break
    assert audit(store.path) == []
    tree = store.tree(digest)
    # Files, inner directories, the top after the rename, the manifest, both shards.
    assert len(seen) >= len(tree.files) + len(tree.directories) + 1 + 1 + 2
    assert {file.real.stat().st_ino for file in store.files(digest)} <= set(seen)


def test_many_files_are_waited_for_in_one_call(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "_MANY", 3)
    store.objects()
    asked: list[int] = []
    sync = platform_linux.sync_file_system

    def counted(descriptor: int) -> bool:
        assert os.fstat(descriptor).st_dev == store.path.stat().st_dev
        asked.append(descriptor)
        return sync(descriptor)

    monkeypatch.setattr(registration, "sync_file_system", counted)
    seen = count_fsyncs(monkeypatch, 0)
    digest = write_tree(store, {f"f{number}": Blob(bytes([number])) for number in range(5)})
    assert len(asked) == 1
    inodes = {file.real.stat().st_ino for file in store.files(digest)}
    assert inodes.isdisjoint(seen)
    assert store.verify().ok
    assert len(list((store.path / "links").glob("*/*"))) == 5


def test_where_many_files_cannot_be_waited_for_at_once_each_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "_MANY", 3)
    monkeypatch.setattr(registration, "sync_file_system", lambda _: False)
    store.objects()
    seen = count_fsyncs(monkeypatch, 0)
    digest = write_tree(store, {f"f{number}": Blob(bytes([number])) for number in range(5)})
    assert {file.real.stat().st_ino for file in store.files(digest)} <= set(seen)


def test_a_file_system_that_could_not_write_ends_the_registration_of_many_files(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> bool:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    files = {f"f{number}": Blob(bytes([number])) for number in range(5)}
    with monkeypatch.context() as patched:
        patched.setattr(registration, "_MANY", 3)
        patched.setattr(registration, "sync_file_system", fail)
        with pytest.raises(UnfitEnvironmentError, match="Input/output error"):
            write_tree(store, files)
    assert store.objects() == []
    assert not list((store.path / "links").glob("*/*"))
    write_tree(store, files)
    assert audit(store.path) == []


@pytest.mark.parametrize(("release", "told"), [("5.8.0-1", True), ("5.7.19", False), ("6.1", True)])
def test_only_a_kernel_that_tells_errors_is_asked_to_write_everything(
    monkeypatch: pytest.MonkeyPatch, release: str, told: bool
) -> None:
    platform_linux._tells_errors_of_syncfs.cache_clear()
    uname = os.uname()
    found = type(uname)((uname.sysname, uname.nodename, release, uname.version, uname.machine))
    with monkeypatch.context() as patched:
        patched.setattr(os, "uname", lambda: found)
        assert platform_linux._tells_errors_of_syncfs() is told
    platform_linux._tells_errors_of_syncfs.cache_clear()
