"""The steps of a registration: what is shared, what is held, what is on the disk, and what the index says of it."""

from pathlib import Path
from typing import Any

import pytest

from auditing import audit
from descriptors import nothing_left_open
from dis_store import Digest, IntegrityError, ReferenceEntry, Store, Tree
from dis_store.durability import write_new
from dis_store.foundation import Foundation
from dis_store.hashing import CHUNK_BYTES
from dis_store.layout import Layout
from dis_store.temp_roots import live_temp_roots
from dis_store.writing import registration
from dis_store.writing.index_rows import enter_object
from dis_store.writing.registration import same_bytes
from trees import Blob, write_text, write_tree
from waits import watch_waits

FILES = {"a/b": Blob(b"one"), "c": Blob(b"two", executable=True)}


def test_equal_files_of_one_tree_are_one_and_executable_ones_another(store: Store) -> None:
    digest = write_tree(store, {name: Blob(b"same", executable=name > "b") for name in "abcd"})
    inodes = [store.file_path(digest, name).stat().st_ino for name in "abcd"]
    assert (inodes[0], inodes[2]) == (inodes[1], inodes[3])
    assert inodes[0] != inodes[2]
    name = Digest.of(b"same")
    shared = store.path / "links" / name[:2] / name
    assert shared.stat().st_ino == inodes[0]
    assert shared.with_name(f"{shared.name}-x").stat().st_ino == inodes[2]
    assert audit(store.path) == []


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1])
def test_files_are_the_same_when_every_byte_is(tmp_path: Path, size: int) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"x" * size)
    other.write_bytes(b"x" * size)
    with nothing_left_open():
        assert same_bytes(one, other)
        other.write_bytes(b"x" * (size + 1))
        assert not same_bytes(one, other)
        assert not same_bytes(other, one)
        if size:
            for place in {0, size - 1}:
                other.write_bytes(b"x" * place + b"y" + b"x" * (size - place - 1))
                assert not same_bytes(one, other)


def test_what_is_registered_is_held_from_the_first_moment(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = write_text(store, "inner")
    store.close()
    held: list[set[Digest]] = []
    seal = registration._seal

    def watched(*arguments: Any) -> None:
        held.append(live_temp_roots(Layout(store.path), sweep=False))
        seal(*arguments)

    monkeypatch.setattr(registration, "_seal", watched)
    with Store.open(store.path) as again:
        digest = write_tree(again, FILES, {"ref": (inner, None)})
        assert held == [{digest, inner}]
        # What is there is held as well, and not made once more.
        assert write_tree(again, FILES, {"ref": (inner, None)}) == digest
    assert len(held) == 1


def test_an_object_that_another_registers_meanwhile_is_not_put_in_place_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: list[Foundation] = []
    install = registration._install

    def meanwhile(*arguments: Any, **options: Any) -> None:
        write_new(*arguments, **options)
        monkeypatch.setattr(registration, "write_new", write_new)
        with Store.open(store.path) as other:
            write_tree(other, FILES)

    def counted(foundation: Foundation, *arguments: Any) -> None:
        installed.append(foundation)
        install(foundation, *arguments)

    monkeypatch.setattr(registration, "_install", counted)
    monkeypatch.setattr(registration, "write_new", meanwhile)
    digest = write_tree(store, FILES)
    assert len(installed) == 1
    assert installed[0] is not store._foundation
    assert store.is_valid(digest)
    assert audit(store.path) == []


def test_what_was_distrusted_is_trusted_when_it_was_made_again(store: Store) -> None:
    digest = write_tree(store, FILES)
    store._foundation.distrusted.add(digest)
    assert not store.is_valid(digest)
    assert write_tree(store, FILES) == digest
    assert store.is_valid(digest)


def test_the_index_knows_what_an_object_is_made_of_and_refers_to_only_what_is_there(
    store: Store,
) -> None:
    index = store._foundation.index
    inner = write_text(store, "inner")
    outer = write_tree(store, FILES | {"again": Blob(b"one")}, {"ref": (inner, None)})
    names = "SELECT o.digest, f.blake3 FROM object_files f JOIN objects o ON o.id = f.object"
    expected = {(inner, Digest.of(b"inner"))}
    assert set(index.query(names)) == expected | {
        (outer, Digest.of(data)) for data in (b"one", b"two")
    }
    refs = (
        "SELECT a.digest, b.digest FROM refs JOIN objects a ON a.id = referrer"
        " JOIN objects b ON b.id = reference"
    )
    assert index.query(refs) == [(outer, inner)]
    dangling = Tree((ReferenceEntry("ref", Digest.of(b"nothing")),))
    with pytest.raises(IntegrityError, match="cannot be registered"), index.transaction() as step:
        enter_object(step, dangling)
    assert not store._foundation.has_row(dangling.digest)


def test_all_of_an_object_is_on_the_disk_under_its_name_before_its_row_is_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = write_text(store, "inner")
    with Store.open(store.path.parent / "model") as model:
        digest = write_tree(model, FILES, {"deep/ref": (write_text(model, "inner"), None)})
    top = store.object_path(digest)
    manifest = store.path / "manifests" / digest[:2] / f"{digest}.json"
    store.objects()
    waits = watch_waits(monkeypatch, [top, manifest])
    before: list[int] = []
    enter_index = registration._enter_index

    def watched(*arguments: Any) -> None:
        before.append(len(waits))
        enter_index(*arguments)

    monkeypatch.setattr(registration, "_enter_index", watched)
    assert write_tree(store, FILES, {"deep/ref": (inner, None)}) == digest
    early = waits[: before[0]]
    inodes = {wait.inode for wait in early}
    inside = [path for path in top.rglob("*") if not path.is_symlink()]
    assert {path.stat().st_ino for path in [*inside, manifest]} <= inodes
    # What is inside was waited for before anybody could see it.
    hidden = {wait.inode for wait in early if not wait.named}
    assert {path.stat().st_ino for path in [*inside, manifest]} <= hidden
    for path, named in ((top, top), (top.parent, top), (manifest.parent, manifest)):
        assert any(wait.inode == path.stat().st_ino and named in wait.named for wait in early), path
    # The shards are new in their rooms.
    for path in (top, manifest):
        assert path.parent.parent.stat().st_ino in inodes
    # Directories are waited for when what is in them has its mode.
    order = [wait.inode for wait in early]
    for path in inside:
        if path.is_dir():
            for below in path.iterdir():
                if not below.is_symlink():
                    assert order.index(below.stat().st_ino) < order.index(path.stat().st_ino)
