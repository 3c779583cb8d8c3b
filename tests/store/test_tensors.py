"""The index knows the tensors of every safetensors file, however it came in."""

import io
import os
import sqlite3
from pathlib import Path

import pytest

from dis_store import (
    Digest,
    IntegrityError,
    Store,
    add_path,
    export_closures,
    import_closures,
    tensor_set_digest,
)
from tensor_layouts import Raw, expected, file_of, found, scanned
from trees import Blob, write_text, write_tree

A, B = Raw("F32", (2, 2), bytes(range(16))), Raw("BF16", (3,), b"abcdef")
TENSORS = {"a": A, "b\x1b[31m": B, "empty": Raw("U8", (0,), b""), "scalar": Raw("I16", (), b"xy")}
CONTENT = file_of(TENSORS)
LARGE = {
    name: Raw("U8", (5 << 20,), bytes([number]) * (5 << 20)) for number, name in enumerate("ab")
}


def tensors_in(store: Store, digest: Digest) -> dict[str, object]:
    """Return what the index knows of an object's tensors; no file may be read for it."""
    rows = store._foundation.index.query(
        "SELECT name, dtype, shape, tensors.blake3 FROM tensors"
        " JOIN object_files ON object_files.blake3 = file JOIN objects ON id = object"
        " WHERE digest = ?",
        (digest,),
    )
    return {
        name: (dtype, tuple(map(int, filter(None, shape[1:-1].split(",")))), Digest(blake3))
        for name, dtype, shape, blake3 in rows
    }


def rows(store: Store) -> int:
    return int(store._foundation.index.value("SELECT count(*) FROM tensors"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source" / "any name"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return path


def test_what_is_written_at_once_and_piece_by_piece(store: Store) -> None:
    with store.new_tree() as tree:
        tree.write_bytes("bytes", CONTENT)
        digest = tree.register()
    assert tensors_in(store, digest) == expected(TENSORS)
    other = file_of(dict(reversed(TENSORS.items())))
    with store.new_tree() as tree:
        with tree.create("pieces") as file:
            for byte in other:
                file.write(bytes([byte]))
        digest = tree.register()
    assert tensors_in(store, digest) == expected(TENSORS)
    large = file_of(LARGE)
    with store.new_tree() as tree:
        tree.write_stream("stream", io.BytesIO(large))
        digest = tree.register()
    assert tensors_in(store, digest) == expected(LARGE)


def test_what_is_copied_in(store: Store, source: Path) -> None:
    assert tensors_in(store, add_path(store, source)) == expected(TENSORS)


def test_what_is_cloned_in(store: Store, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def clone(source: int, target: int) -> bool:
        os.pwrite(target, os.pread(source, 1 << 20, 0), 0)
        return True

    monkeypatch.setattr("dis_store.writing.ingestion.clone_file", clone)
    assert tensors_in(store, add_path(store, source)) == expected(TENSORS)


def test_what_is_moved_in(store: Store, source: Path) -> None:
    assert tensors_in(store, add_path(store, source, adopt=True)) == expected(TENSORS)
    assert not source.exists()


def test_what_is_imported(store: Store, tmp_path: Path) -> None:
    inner = write_tree(store, {"w": Blob(CONTENT), "x": Blob(CONTENT, executable=True)})
    outer = write_tree(store, {}, {"weights": (inner, None)})
    archive = io.BytesIO()
    export_closures(store, [outer], archive)
    archive.seek(0)
    with Store.open(tmp_path / "other") as other:
        import_closures(other, archive)
        assert tensors_in(other, inner) == expected(TENSORS)
        (first, second) = other.files(outer)
        assert found(other.tensors(first)) == found(other.tensors(second)) == expected(TENSORS)
        assert other.tensor_set(outer) == tensor_set_digest(scanned(CONTENT))


def test_a_file_that_is_no_safetensors_file_has_none(store: Store) -> None:
    named = write_tree(store, {"model.safetensors": Blob(CONTENT + b"x")})
    (file,) = store.files(named)
    assert store.tensors(file) == ()
    assert store.tensor_set(named) is None
    assert rows(store) == 0


def test_places_lead_to_the_bytes(store: Store) -> None:
    (file,) = store.files(write_tree(store, {"w": Blob(CONTENT)}))
    data = file.real.read_bytes()
    for each in store.tensors(file):
        assert Digest.of(data[each.offset : each.offset + each.length]) == each.blake3
    assert store.tensors(file) == scanned(CONTENT)


def test_a_reindexing_finds_them_again(store: Store) -> None:
    digest = write_tree(store, {"w": Blob(CONTENT)})
    with store._foundation.index.transaction() as transaction:
        transaction.execute("DELETE FROM tensors")
    store.reindex()
    assert tensors_in(store, digest) == expected(TENSORS)
    store.reindex()
    assert rows(store) == len(TENSORS)


def test_they_vanish_with_the_content(store: Store) -> None:
    write_tree(store, {"w": Blob(CONTENT)})
    write_tree(store, {"other name": Blob(CONTENT)})
    kept = file_of({"a": A})
    with Store.open(store.path) as other:
        digest = write_tree(other, {"w": Blob(kept)})
        store.close()
        other.collect_garbage()
        assert tensors_in(other, digest) == expected({"a": A})
        assert rows(other) == 1
    store.collect_garbage()
    assert rows(store) == 0


def test_files_that_nobody_looked_into_are_read_once(store: Store) -> None:
    digest = write_tree(store, {"w": Blob(CONTENT), "text": Blob(b"text")})
    forget(store)
    weights, text = sorted(store.files(digest), key=lambda file: file.size, reverse=True)
    assert store.tensor_set(digest) is None
    assert store.census().tensors.unscanned_objects == 1
    assert found(store.tensors(weights)) == expected(TENSORS)
    assert store.tensors(text) == ()
    assert store.tensor_set(digest) == tensor_set_digest(scanned(CONTENT))
    assert tensors_in(store, digest) == expected(TENSORS)


def test_a_damaged_file_is_not_remembered(store: Store) -> None:
    digest = write_tree(store, {"w": Blob(CONTENT)})
    forget(store)
    (file,) = store.files(digest)
    file.real.chmod(0o644)
    file.real.write_bytes(CONTENT[:-1] + b"?")
    with pytest.raises(IntegrityError, match="has changed in the store"):
        store.tensors(file)
    assert rows(store) == 0
    file.real.unlink()
    with pytest.raises(IntegrityError, match="not there any more"):
        store.tensors(file)


def test_writing_a_file_again_tells_what_nobody_looked_into(store: Store) -> None:
    digest = write_tree(store, {"w": Blob(CONTENT)})
    forget(store)
    write_tree(store, {"again": Blob(CONTENT)})
    assert tensors_in(store, digest) == expected(TENSORS)


def forget(store: Store) -> None:
    """Make the index what that of an older version becomes."""
    with store._foundation.index.transaction() as transaction:
        transaction.execute("DELETE FROM tensors")
        transaction.execute("INSERT INTO unscanned_objects SELECT max(id) FROM objects")


def test_a_census_says_what_could_be_shared(store: Store) -> None:
    assert store.census().tensors.tensors == 0
    write_text(store, "text")
    write_tree(store, {"one": Blob(file_of({"a": A, "b": B}))})
    write_tree(store, {"two": Blob(file_of({"renamed": A})), "same": Blob(file_of({"renamed": A}))})
    count = store.census().tensors
    assert (count.tensors, count.distinct) == (3, 2)
    assert (count.bytes, count.repeated_bytes) == (2 * len(A.data) + len(B.data), len(A.data))
    assert count.unscanned_objects == 0


def test_rows_can_be_read_with_any_sqlite(store: Store) -> None:
    write_tree(store, {"w": Blob(CONTENT)})
    store.close()
    connection = sqlite3.connect(store.path / "index.sqlite")
    try:
        names = {name for (name,) in connection.execute("SELECT name FROM tensors")}
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    finally:
        connection.close()
    assert names == TENSORS.keys()
