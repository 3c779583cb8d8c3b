"""What a verification says of records, and of what the index and the disk do not both know."""

from pathlib import Path

import pytest

from builds import build_of, key_of
from dis_store import (
    Digest,
    Root,
    Store,
    VerificationReport,
    derivations,
    durability,
    sharded,
)
from dis_store.integrity import verification
from dis_store.integrity.inspection import ProblemKind
from dis_store.integrity.verification import remedies
from dis_store.layout import Layout
from dis_store.temp_roots import live_temp_roots
from trees import Blob, write_text, write_tree

DERIVATION = b'{"format":1,"type":"derivation"}'


def said(store: Store) -> list[str]:
    return [str(problem) for problem in store.verify(None, jobs=1).problems]


def lose_row(store: Store, digest: Digest) -> None:
    with store._foundation.index.transaction() as transaction:
        transaction.execute("DELETE FROM objects WHERE digest = ?", (digest,))


def test_what_the_index_lost_is_said_with_where_it_lies(store: Store) -> None:
    whole, bare = write_text(store, "whole"), write_text(store, "bare")
    for digest in (whole, bare):
        lose_row(store, digest)
    durability.remove_tree(store.object_path(bare))
    expected = {
        f"tree without row: {whole} (in objects/)",
        f"tree without row: {bare} (in manifests/)",
    }
    assert set(said(store)) == expected
    (store.path / "manifests" / whole[:2] / f"{whole}.json").unlink()
    assert set(said(store)) == expected


def test_what_the_index_may_not_have_is_said_with_what_it_lacks(store: Store) -> None:
    there, gone = write_text(store, "there"), write_text(store, "gone")
    outer = write_tree(store, {}, {"a": (there, None), "b": (gone, None)})
    for digest in (outer, gone):
        lose_row(store, digest)
        (store.path / "manifests" / gone[:2] / f"{gone}.json").unlink(missing_ok=True)
    durability.remove_tree(store.object_path(gone))
    assert said(store) == [f"incomplete: {outer}/b (it leads to {gone}, which is not there)"]


def test_a_derivation_that_somebody_deleted_or_changed_is_said(store: Store) -> None:
    deleted = store.add_derivation(DERIVATION)
    changed = store.add_derivation(b'{"format":1,"name":"x","type":"derivation"}')
    sound = store.add_derivation(b'{"format":1,"name":"y","type":"derivation"}')
    (store.path / "derivations" / deleted[:2] / f"{deleted}.json").unlink()
    path = store.path / "derivations" / changed[:2] / f"{changed}.json"
    path.chmod(0o644)
    path.write_bytes(DERIVATION)
    found = store.verify(None, jobs=1).problems
    assert {(each.kind, each.subject) for each in found} == {
        ("damaged derivation", deleted),
        ("damaged derivation", changed),
    }
    assert all(each.subject in each.detail for each in found)
    assert sound not in str(found)


def test_a_derivation_that_a_collection_deletes_meanwhile_is_no_damage(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = store.add_derivation(DERIVATION)
    path = store.path / "derivations" / digest[:2] / f"{digest}.json"
    read = derivations.read

    def after_it(*arguments: object) -> bytes:
        with store._foundation.index.transaction() as transaction:
            transaction.execute("DELETE FROM derivations WHERE digest = ?", (digest,))
        path.unlink()
        return read(*arguments)  # type: ignore[arg-type] # as it was called

    monkeypatch.setattr(derivations, "read", after_it)
    assert said(store) == []


def test_what_is_wrong_with_a_record_of_a_build_is_said(store: Store) -> None:
    digest = write_text(store, "x")
    room = store.path / "realisations"
    names = {}
    for letter in "abcd":
        build = store.add_realisation(build_of(letter, {"out": digest}))
        names[letter] = room / build.key[:2] / build.key / f"{build.build}.json"
    names["a"].unlink()
    moved = names["b"].rename(names["b"].with_name("0123abcd.json"))
    names["c"].chmod(0o644)
    names["c"].write_bytes(names["c"].read_bytes().replace(b'"a host"', b'"b host"'))
    # Beside a directory of a key, what else lies there is none.
    (room / key_of("d")[:2] / "file").touch()

    def name_of(path: Path) -> str:
        return f"{path.parent.name}/{path.name}"

    found = {each.subject: each for each in store.verify(None, jobs=1).problems}
    assert found.keys() == {name_of(path) for path in (names["a"], names["b"], moved, names["c"])}
    assert {each.kind for each in found.values()} == {"damaged realisation"}
    assert "No such file" in found[name_of(names["a"])].detail
    assert "No such file" in found[name_of(names["b"])].detail
    assert found[name_of(moved)].detail == "it belongs under another name"
    assert found[name_of(names["c"])].detail == "the index says something else"
    assert {each.path for each in found.values()} == {None}


def test_what_a_root_keeps_in_vain_is_said(store: Store) -> None:
    digest = write_text(store, "x")
    key = key_of("nothing")
    store.set_root("name", Root(digest, derivation=key, key=key))
    assert said(store) == [
        f"damaged root: name (it keeps the derivation {key}, which the index does not know)",
        f"damaged root: name (it keeps the key {key}, which the index does not know)",
    ]


def test_a_root_that_is_removed_meanwhile_is_no_damage(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.set_root("name", Root(write_text(store, "x"), key=key_of("nothing")))
    index = store._foundation.index
    value = type(index).value

    def after_it(self: object, sql: str, arguments: tuple[object, ...] = ()) -> object:
        if "FROM realisations" in sql:
            (store.path / "roots" / "name.json").unlink(missing_ok=True)
        return value(self, sql, arguments)  # type: ignore[arg-type] # as it was called

    monkeypatch.setattr(type(index), "value", after_it)
    assert said(store) == []


def test_problems_come_by_object_and_path_that_of_the_whole_first(store: Store) -> None:
    digest = write_tree(store, {"a": Blob(b"1"), "b": Blob(b"2"), "c": Blob(b"3")})
    top = store.object_path(digest)
    top.chmod(0o755)
    (top / "a").unlink()
    (top / "b").chmod(0o755)
    (top / "c").chmod(0o644)
    found = [(each.path, each.kind) for each in store.verify([digest], jobs=1).problems]
    assert found == [
        (None, "wrong mode"),
        ("a", "missing"),
        ("b", "wrong mode"),
        ("c", "wrong mode"),
    ]
    (top / "c").write_bytes(b"4")
    found = [(each.path, each.kind) for each in store.verify([digest], jobs=1).problems]
    assert found[-2:] == [("c", "changed"), ("c", "wrong mode")]


def test_what_is_verified_is_held_meanwhile(store: Store) -> None:
    digest, other = write_text(store, "x"), write_text(store, "y")
    layout = Layout(store.path)
    for wanted, held in (([digest], {digest}), (None, {digest, other})):
        store.close()
        with Store.open(store.path) as again:
            assert again.verify(wanted, jobs=1).ok
            assert live_temp_roots(layout, sweep=False) == held


def test_an_object_that_is_registered_meanwhile_is_no_damage(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = write_text(store, "x")
    lose_row(store, digest)
    seen = sharded.digests_on_disk

    def before_it(room: Path) -> dict[Digest, Path]:
        found = seen(room)
        with Store.open(store.path) as other:
            write_text(other, "x")
        return found

    monkeypatch.setattr(verification, "digests_on_disk", before_it)
    assert said(store) == []


def test_what_the_index_does_not_know_is_said_of_whom_it_concerns(store: Store) -> None:
    nothing = Digest.of(b"nothing")
    report = store.verify([nothing], jobs=1)
    assert [str(each) for each in report.problems] == [
        f"missing: {nothing} (the index does not know it)"
    ]
    inner = write_text(store, "inner")
    outer = write_tree(store, {}, {"a/ref": (inner, None)})
    index = store._foundation.index
    index.query("PRAGMA foreign_keys=OFF")
    lose_row(store, inner)
    report = store.verify([outer], jobs=1)
    assert [str(each) for each in report.problems] == [
        f"missing: {outer}/a/ref (it leads to {inner}, which the index does not know)"
    ]


def test_why_a_record_cannot_be_read_is_said(store: Store) -> None:
    digest = write_text(store, "x")
    manifest = store.path / "manifests" / digest[:2] / f"{digest}.json"
    manifest.chmod(0o644)
    manifest.write_bytes(b"{}")
    root = store.path / "roots" / "name.json"
    root.write_bytes(b"xx")
    found = {each.kind: each for each in store.verify(None, jobs=1).problems}
    assert found["damaged manifest"].subject == digest
    assert f"its BLAKE3 is {Digest.of(b'{}')}" in found["damaged manifest"].detail
    assert found["damaged root"].path is None
    assert str(root) in found["damaged root"].detail


def test_a_signature_that_is_not_what_its_name_says_is_said(store: Store) -> None:
    build = store.add_realisation(build_of("a", {"out": write_text(store, "x")}))
    room = store.path / "signatures" / build.key[:2] / build.key
    room.mkdir(parents=True)
    (room / f"{build.key}.json").write_bytes(b"{}")
    name = f"{build.key}/{build.key}.json"
    assert said(store) == [f"damaged signature: {name} (its name is not its digest)"]


def test_some_objects_are_verified_without_the_records(store: Store) -> None:
    digest = write_text(store, "x")
    (store.path / "roots" / "name.json").write_bytes(b"xx")
    assert store.verify([digest, digest], jobs=1) == VerificationReport(1, 1, 1, ())
    assert [each.subject for each in store.verify(None, jobs=1).problems] == ["name"]


def test_what_was_read_is_told_and_of_how_much(store: Store) -> None:
    shared = Blob(b"s" * 1000)
    one = write_tree(store, {"a": shared, "b": Blob(b"x" * 10)})
    other = write_tree(store, {"c": shared})
    told: list[tuple[int, int]] = []
    report = store.verify([one, other], jobs=1, progress=lambda *each: told.append(each))
    assert (report.objects, report.files, report.bytes) == (2, 2, 1010)
    assert told[0] == (0, 1010)
    assert sum(amount for amount, _ in told) == 1010
    assert {total for _, total in told} == {1010}


def test_an_object_that_lies_there_in_part_is_told_of_once(store: Store) -> None:
    digest = write_tree(store, {"a": Blob(b"1"), "b": Blob(b"2")})
    durability.remove_tree(store.object_path(digest))
    (store.path / "manifests" / digest[:2] / f"{digest}.json").unlink()
    found = [(each.kind, each.subject) for each in store.verify([digest], jobs=1).problems]
    assert found == [("damaged manifest", digest), ("row without tree", digest)]


@pytest.mark.parametrize(
    ("kinds", "commands"),
    [
        ({"damaged root"}, ["dis root remove NAME"]),
        ({"changed"}, ["--repair", "dis store reindex", "--rebuild"]),
        ({"incomplete"}, ["--rebuild"]),
        ({"tree without row"}, ["dis store reindex"]),
        (
            {"damaged signature"},
            ["--repair", "dis store reindex", "dis sign REF"],
        ),
        ({"damaged root", "incomplete"}, ["dis root remove NAME", "--rebuild"]),
        (set(), []),
    ],
)
def test_the_way_on_is_told_by_kind(kinds: set[ProblemKind], commands: list[str]) -> None:
    found = remedies(kinds)
    assert len(found) == len(commands)
    assert all(command in text for command, text in zip(commands, found, strict=True))
