import os
import socket
from pathlib import Path
from typing import Any

import pytest

from auditing import audit
from dis_store import (
    BuildError,
    Digest,
    IntegrityError,
    InvalidInputError,
    Sha256,
    Store,
)
from dis_store.hashing import Content
from dis_store.writing import ingestion

DATA = b"some content " * 400_000  # 5 MB


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(DATA)
    return path


def ingest(store: Store, source: Path) -> Digest:
    with store.new_tree() as tree:
        written = tree.ingest("file", source)
        assert (written.blake3, written.sha256) == (Digest.of(DATA), Sha256.of(DATA))
        return tree.register()


def test_a_file_is_copied_and_the_source_left_alone(store: Store, source: Path) -> None:
    before = source.stat()
    digest = ingest(store, source)
    after = source.stat()
    assert store.read_bytes(digest, "file") == DATA
    assert (before.st_mtime_ns, before.st_ctime_ns, before.st_nlink) == (
        after.st_mtime_ns,
        after.st_ctime_ns,
        after.st_nlink,
    )
    source.write_bytes(b"changed later")
    assert store.read_bytes(digest, "file") == DATA
    assert audit(store.path) == []


def test_shared_blocks_are_hashed_from_the_copy(
    store: Store, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clone(opened: int, target: int) -> bool:
        os.write(target, os.pread(opened, len(DATA), 0))
        return True

    monkeypatch.setattr(ingestion, "clone_file", clone)
    assert store.read_bytes(ingest(store, source), "file") == DATA


def test_a_short_read_goes_on(store: Store, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = os.read
    monkeypatch.setattr(os, "read", lambda opened, count: read(opened, min(count, 70_001)))
    assert store.read_bytes(ingest(store, source), "file") == DATA


@pytest.mark.parametrize(("mode", "executable"), [(0o644, False), (0o755, True), (0o444, False)])
def test_a_file_is_executable_as_its_source_is(
    store: Store, source: Path, mode: int, executable: bool
) -> None:
    source.chmod(mode)
    with store.new_tree() as tree:
        assert tree.ingest("as it is", source).executable is executable
        assert tree.ingest("never", source, executable=False).executable is False
        assert tree.ingest("always", source, executable=True).executable is True


def test_a_symlink_is_refused(store: Store, source: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(source)
    with store.new_tree() as tree, pytest.raises(InvalidInputError, match="symlink"):
        tree.ingest("file", link)


def test_what_is_no_regular_file_is_refused(store: Store, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "socket"))
    listener.close()
    with store.new_tree() as tree:
        for name in ("pipe", "socket", "missing", "."):
            with pytest.raises(InvalidInputError, match="cannot be taken"):
                tree.ingest("file", tmp_path / name)
        with pytest.raises(InvalidInputError):
            tree.ingest("file", Path("/dev/null"))
        assert store.tree(tree.register()).entries == ()


def test_a_source_of_another_size_is_not_read(store: Store, source: Path) -> None:
    with store.new_tree() as tree, pytest.raises(IntegrityError, match="bytes, not 7"):
        tree.ingest("file", source, size=7)


def test_a_source_of_another_digest_is_refused(store: Store, source: Path) -> None:
    with store.new_tree() as tree:
        with pytest.raises(IntegrityError, match="its digest is sha256:"):
            tree.ingest("file", source, size=len(DATA), sha256=Sha256.of(b"else"))
        tree.ingest("file", source, size=len(DATA), sha256=Sha256.of(DATA))


@pytest.mark.parametrize("change", [b"", b"longer" + DATA, DATA[::-1]])
def test_a_source_that_changes_while_it_is_read_is_refused(
    store: Store, source: Path, monkeypatch: pytest.MonkeyPatch, change: bytes
) -> None:
    copy = ingestion.copy_and_hash

    def disturbed(opened: int, target: int, **options: Any) -> tuple[Content, ingestion.Way]:
        copied = copy(opened, target, **options)
        os.utime(source, (5, 5))
        source.write_bytes(change)
        return copied

    monkeypatch.setattr("dis_store.writing.tree_writer.copy_and_hash", disturbed)
    with store.new_tree() as tree:
        with pytest.raises(BuildError, match="changed while it was read"):
            tree.ingest("file", source)
        assert store.tree(tree.register()).entries == ()
    assert audit(store.path) == []


def test_a_file_without_a_known_size_is_read_to_its_end(store: Store) -> None:
    version = Path("/proc/version")
    if not version.is_file():
        pytest.skip("this system has no /proc")
    # Its size is 0 until it is read, so that it seems to change.
    with store.new_tree() as tree, pytest.raises(BuildError):
        tree.ingest("file", version)
