import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auditing import audit
from builds import build_of
from dis_store import Digest, IntegrityError, Problem, Root, Store, durability
from dis_store.integrity import inspection
from trees import Blob, write_text, write_tree


@pytest.fixture
def digest(store: Store) -> Digest:
    inner = write_text(store, "inner")
    files = {"d/file": Blob(b"data"), "tool": Blob(b"tool", executable=True)}
    return write_tree(store, files, {"ref": (inner, "text")})


def kinds(store: Store, digest: Digest | None = None) -> set[tuple[str, str | None]]:
    report = store.verify(None if digest is None else [digest], jobs=2)
    assert report.ok == (not report.problems)
    return {(problem.kind, problem.path) for problem in report.problems}


def test_a_sound_store_has_no_problems(store: Store, digest: Digest) -> None:
    store.add_realisation(build_of("a", {"out": digest}))
    store.add_derivation(b'{"format":1,"type":"derivation"}')
    store.set_root("name", Root(digest))
    report = store.verify(jobs=2)
    assert report.ok
    assert (report.objects, report.files, report.bytes) == (2, 3, 13)


Damage = Callable[[Path], None]


def open_up(top: Path) -> None:
    for directory in (top, top / "d"):
        directory.chmod(0o755)


def change_byte(top: Path) -> None:
    (top / "d" / "file").chmod(0o644)
    (top / "d" / "file").write_bytes(b"dat_")
    (top / "d" / "file").chmod(0o444)


def truncate(top: Path) -> None:
    (top / "d" / "file").chmod(0o644)
    os.truncate(top / "d" / "file", 3)
    (top / "d" / "file").chmod(0o444)


def remove_file(top: Path) -> None:
    open_up(top)
    (top / "d" / "file").unlink()
    top.chmod(0o555)
    (top / "d").chmod(0o555)


def remove_directory(top: Path) -> None:
    open_up(top)
    durability.remove_tree(top / "d")
    top.chmod(0o555)


def add_file(top: Path) -> None:
    top.chmod(0o755)
    (top / "extra").write_bytes(b"")
    top.chmod(0o555)


def replace_by_symlink(top: Path) -> None:
    top.chmod(0o755)
    (top / "tool").rename(top.parent / "elsewhere")
    (top / "tool").symlink_to("../elsewhere")
    top.chmod(0o555)


def replace_by_file(top: Path) -> None:
    top.chmod(0o755)
    for name in ("ref",):
        (top / name).unlink()
        (top / name).write_bytes(b"inner")
    top.chmod(0o555)


def turn_reference(top: Path) -> None:
    top.chmod(0o755)
    (top / "ref").unlink()
    (top / "ref").symlink_to("/etc/passwd")
    top.chmod(0o555)


def directory_by_file(top: Path) -> None:
    open_up(top)
    durability.remove_tree(top / "d")
    (top / "d").write_bytes(b"")
    top.chmod(0o555)


DAMAGES: dict[str, tuple[Damage, set[tuple[str, str | None]]]] = {
    "a changed byte": (change_byte, {("changed", "d/file")}),
    "a shorter file": (truncate, {("changed", "d/file")}),
    "a missing file": (remove_file, {("missing", "d/file")}),
    "a missing directory": (remove_directory, {("missing", "d"), ("missing", "d/file")}),
    "an extra file": (add_file, {("extra", "extra")}),
    "a symlink for a file": (replace_by_symlink, {("changed", "tool")}),
    "a file for a reference": (replace_by_file, {("changed", "ref")}),
    "a reference to elsewhere": (turn_reference, {("changed", "ref")}),
    "a file for a directory": (directory_by_file, {("changed", "d")}),
    "a writable file": (lambda top: (top / "tool").chmod(0o755), {("wrong mode", "tool")}),
    "a file that lost its bit": (lambda top: (top / "tool").chmod(0o444), {("wrong mode", "tool")}),
    "a setuid file": (lambda top: (top / "tool").chmod(0o4555), {("wrong mode", "tool")}),
    "a writable directory": (lambda top: (top / "d").chmod(0o755), {("wrong mode", "d")}),
    "a writable object": (lambda top: top.chmod(0o755), {("wrong mode", None)}),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_to_a_tree_is_found(store: Store, digest: Digest, name: str) -> None:
    damage, expected = DAMAGES[name]
    damage(store.object_path(digest))
    assert kinds(store, digest) == expected
    assert kinds(store) == expected
    # The two that know nothing of each other agree.
    assert audit(store.path) != []


def test_every_flipped_bit_is_found(store: Store, digest: Digest) -> None:
    file = store.object_path(digest) / "d" / "file"
    for position in range(4):
        for bit in range(8):
            data = bytearray(b"data")
            data[position] ^= 1 << bit
            file.chmod(0o644)
            file.write_bytes(data)
            file.chmod(0o444)
            assert kinds(store, digest) == {("changed", "d/file")}


def test_an_unreadable_file_is_found(
    store: Store, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may read everything, so that the refusal is played; test_permissions.py has a real one.
    def refuse(_: int, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(inspection, "hash_descriptor", refuse)
    assert kinds(store, digest) == {("unreadable", "d/file"), ("unreadable", "tool")}


def test_an_object_that_is_not_there_is_missing(store: Store) -> None:
    assert kinds(store, Digest.of(b"nothing")) == {("missing", None)}


def test_a_row_without_a_tree_is_found(store: Store, digest: Digest) -> None:
    durability.remove_tree(store.object_path(digest))
    assert kinds(store) == {("row without tree", None)}


def test_a_tree_without_a_row_is_found(store: Store, digest: Digest) -> None:
    with store._foundation.index.transaction() as transaction:
        transaction.execute("DELETE FROM objects WHERE digest = ?", (digest,))
    assert kinds(store) == {("tree without row", None)}
    assert kinds(store, digest) == {("missing", None)}


@pytest.mark.parametrize("spoiled", [b"", b"{}", None])
def test_a_damaged_manifest_is_found(store: Store, digest: Digest, spoiled: bytes | None) -> None:
    manifest = store.path / "manifests" / digest[:2] / f"{digest}.json"
    manifest.chmod(0o644)
    if spoiled is None:
        manifest.unlink()
    else:
        manifest.write_bytes(spoiled)
    assert kinds(store) == {("damaged manifest", None)}
    assert audit(store.path) != []


def test_a_reference_to_what_the_index_lost_is_found(store: Store, digest: Digest) -> None:
    inner = store.references(digest)[0]
    index = store._foundation.index
    index.query("PRAGMA foreign_keys=OFF")
    with index.transaction() as transaction:
        transaction.execute("DELETE FROM objects WHERE digest = ?", (inner,))
    assert ("missing", "ref") in kinds(store, digest)


def test_damaged_records_are_found(store: Store, digest: Digest) -> None:
    derivation = store.add_derivation(b'{"format":1,"type":"derivation"}')
    build = store.add_realisation(build_of("a", {"out": digest}))
    other = store.add_realisation(build_of("b", {"out": digest}))
    lost = store.add_realisation(build_of("c", {"out": digest}))
    store.set_root("name", Root(digest))
    room = store.path / "realisations"
    spoil(store.path / "derivations" / derivation[:2] / f"{derivation}.json")
    spoil(room / build.key[:2] / build.key / f"{build.build}.json")
    moved = room / other.key[:2] / other.key / f"{other.build}.json"
    moved.rename(moved.with_name("another.json"))
    (room / lost.key[:2] / lost.key / f"{lost.build}.json").unlink()
    spoil(store.path / "roots" / "name.json")
    found = [problem.kind for problem in store.verify(jobs=1).problems]
    assert sorted(found) == [
        "damaged derivation",
        "damaged realisation",
        "damaged realisation",
        "damaged realisation",
        "damaged realisation",
        "damaged root",
    ]


def test_a_record_that_says_something_else_than_the_index_is_found(
    store: Store, digest: Digest
) -> None:
    build = store.add_realisation(build_of("a", {"out": digest}))
    path = store.path / "realisations" / build.key[:2] / build.key / f"{build.build}.json"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b'"a host"', b'"b host"'))
    assert {kind for kind, _ in kinds(store)} == {"damaged realisation"}


def test_a_damaged_record_of_a_result_link_is_found(
    store: Store, digest: Digest, tmp_path: Path
) -> None:
    store.add_result_link(tmp_path / "result", Root(digest))
    spoil(next((store.path / "roots" / "auto").iterdir()))
    assert {kind for kind, _ in kinds(store)} == {"damaged root"}


def spoil(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-5])


def test_a_shared_inode_is_read_once_and_its_damage_found_everywhere(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = [write_tree(store, {f"{number}": Blob(b"shared")}) for number in range(5)]
    read: list[Path] = []
    hash_file = inspection.hash_file

    def counted(path: Path, **options: Any) -> Digest | OSError:
        read.append(path)
        return hash_file(path, **options)

    monkeypatch.setattr("dis_store.integrity.hash_pool.hash_file", counted)
    assert store.verify(jobs=2).ok
    assert len(read) == 1
    file = store.file_path(objects[0], "0")
    file.chmod(0o644)
    file.write_bytes(b"SHARED")
    file.chmod(0o444)
    report = store.verify(jobs=2)
    assert {problem.subject for problem in report.problems} == set(objects)


def test_one_big_file_is_hashed_by_several_threads(store: Store) -> None:
    digest = write_tree(store, {"big": Blob(b"b" * (9 << 20))})
    report = store.verify([digest], jobs=4)
    assert report.ok
    assert report.bytes == 9 << 20


def lose_tree(store: Store, digest: Digest) -> None:
    """Delete the tree of an object by hand, as somebody who is not root must."""
    top = store.object_path(digest)
    for directory in (
        top,
        *(path for path in top.rglob("*") if path.is_dir() and not path.is_symlink()),
    ):
        directory.chmod(0o755)
    shutil.rmtree(top)


def test_an_object_whose_reference_is_gone_is_incomplete_and_the_way_on_is_told(
    store: Store, digest: Digest
) -> None:
    (reference,) = store.references(digest)
    lose_tree(store, reference)
    assert "dis store reindex" in " ".join(store.verify(None).remedies)
    store.reindex()
    assert kinds(store) == {("incomplete", "ref")}
    (remedy,) = store.verify(None).remedies
    assert "dis realize CONFIG" in remedy
    store.close()  # what this process wrote is kept until then
    store.collect_garbage()
    assert store.verify(None).ok
    assert store.verify(None).remedies == ()


def test_what_a_root_keeps_of_an_incomplete_closure_is_not_collected(
    store: Store, digest: Digest
) -> None:
    store.set_root("kept", Root(digest))
    (reference,) = store.references(digest)
    lose_tree(store, reference)
    store.reindex()
    store.close()  # what this process wrote is kept until then
    store.collect_garbage()
    assert store.object_path(digest).is_dir()
    store.remove_root("kept")
    store.collect_garbage()
    assert not store.object_path(digest).exists()


def test_all_damaged_records_of_roots_are_found(store: Store) -> None:
    for name in ("one", "auto/two", "auto/three"):
        (store.path / "roots" / f"{name}.json").write_bytes(b"xx")
    found = {problem.subject: problem.detail for problem in store.verify(None).problems}
    assert set(found) == {"one", "auto/two", "auto/three"}
    assert str(store.path / "roots" / "auto" / "two.json") in found["auto/two"]
    report = store.reindex()
    assert {problem.subject for problem in report.problems} == set(found)
    assert (store.path / "roots" / "one.json").read_bytes() == b"xx"


def test_a_problem_reads_as_one_line() -> None:
    problem = Problem("changed", "ab" * 32, "a/b", "BLAKE3 x, expected y")
    assert str(problem) == f"changed: {'ab' * 32}/a/b (BLAKE3 x, expected y)"
    assert str(Problem("missing", "cd")) == "missing: cd"


def test_verifying_changes_nothing(store: Store, digest: Digest) -> None:
    change_byte(store.object_path(digest))
    store.verify(jobs=1)
    assert store.is_valid(digest)
    assert list(store.path.joinpath("quarantine").iterdir()) == []


@pytest.mark.parametrize("kept", ["object", "key", "derivation"])
def test_a_root_that_keeps_what_is_not_there_is_found(
    store: Store, digest: Digest, kept: str
) -> None:
    derivation = store.add_derivation(b'{"format":1,"type":"derivation"}')
    build = store.add_realisation(build_of("a", {"out": digest}, derivation=derivation))
    root = Root(digest, key=build.key, derivation=derivation)
    store.set_root("name", root)
    assert store.verify(None).ok
    # As one turned bit would leave it: a digest still, of nothing.
    true = str(getattr(root, kept))
    wrong = true[:-1] + ("0" if true[-1] != "0" else "1")
    record = store.path / "roots" / "name.json"
    record.chmod(0o644)
    record.write_bytes(record.read_bytes().replace(true.encode(), wrong.encode()))
    found = [(problem.kind, problem.subject) for problem in store.verify(None).problems]
    assert found == [("damaged root", "name")]


@pytest.mark.parametrize("last", [b"\xb6", b"0", b"1"])
def test_a_digest_that_an_index_spells_wrongly_is_found(
    store: Store, digest: Digest, last: bytes
) -> None:
    # Its table and the tree that it is searched by each hold the digest: they differ now.
    store._foundation.index.query("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    index = store.path / "index.sqlite"
    for number in range(index.read_bytes().count(digest.encode())):
        sound = index.read_bytes()
        place = -1
        for _ in range(number + 1):
            place = sound.index(digest.encode(), place + 1)
        spoiled = sound[: place + 63] + last + sound[place + 64 :]
        if spoiled == sound:
            continue
        index.write_bytes(spoiled)
        with Store.open(store.path) as again:
            with pytest.raises(IntegrityError, match="damaged"):
                again.verify(None)
            again.reindex()
            assert again.verify(None).ok
        for path in store.path.glob("index.sqlite*"):
            path.unlink()
        index.write_bytes(sound)
