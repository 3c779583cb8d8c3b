from pathlib import Path

import pytest

from builds import build_of, key_of
from dis_store import Digest, IntegrityError, Root, Sha256, Store, durability
from trees import Blob, write_text, write_tree


def facts(store: Store) -> dict[str, list[tuple[object, ...]]]:
    """Return what the index knows, without row numbers."""
    query = store._foundation.index.query
    return {
        "objects": query("SELECT digest, size FROM objects ORDER BY digest"),
        "refs": query(
            "SELECT a.digest, b.digest FROM refs JOIN objects AS a ON a.id = referrer"
            " JOIN objects AS b ON b.id = reference ORDER BY 1, 2"
        ),
        "files": query("SELECT blake3, sha256, size FROM files ORDER BY 1"),
        "object_files": query(
            "SELECT digest, blake3 FROM object_files JOIN objects ON id = object ORDER BY 1, 2"
        ),
        "derivations": query("SELECT digest FROM derivations"),
        "realisations": query(
            "SELECT key, build, sequence, record FROM realisations ORDER BY 1, 2"
        ),
    }


@pytest.fixture
def filled(store: Store) -> Store:
    inner = write_text(store, "inner")
    outer = write_tree(store, {"d/f": Blob(b"data", executable=True)}, {"r": (inner, None)})
    write_tree(store, {"empty": Blob(b"")}, {"one": (inner, "text"), "two": (outer, "d")})
    derivation = store.add_derivation(b'{"format":1,"type":"derivation"}')
    for text in ("first", "second"):
        store.add_realisation(
            build_of("a", {"out": write_text(store, text)}, derivation=derivation)
        )
    store.set_root("name", Root(outer))
    return store


def delete_index(store: Store) -> None:
    store.close()
    for path in store.path.glob("index.sqlite*"):
        path.unlink()


def overwrite_index(store: Store) -> None:
    store.close()
    (store.path / "index.sqlite").write_bytes(b"no database " * 1000)


def empty_tables(store: Store) -> None:
    with store._foundation.index.transaction() as transaction:
        transaction.execute("DELETE FROM objects")


@pytest.mark.parametrize("damage", [delete_index, overwrite_index, empty_tables, lambda _: None])
def test_the_index_is_rebuilt_from_the_disk_alone(filled: Store, damage: object) -> None:
    before = facts(filled)
    assert callable(damage)
    damage(filled)
    with Store.open(filled.path) as store:
        report = store.reindex(jobs=2)
        assert report.problems == ()
        assert (len(report.objects), report.derivations, report.realisations) == (5, 1, 2)
        assert facts(store) == before
        chosen = store.chosen(key_of("a"))
        assert chosen is not None
        assert chosen.outputs == {"out": write_text(store, "first")}
        assert store.verify(jobs=1).ok


@pytest.mark.parametrize("damage", [delete_index, overwrite_index])
def test_a_lost_index_stops_everything_that_would_trust_it(filled: Store, damage: object) -> None:
    objects = filled.objects()
    assert callable(damage)
    damage(filled)
    with Store.open(filled.path) as store:
        for attempt in (
            lambda: store.is_valid(objects[0]),
            store.collect_garbage,
            lambda: write_text(store, "new"),
        ):
            with pytest.raises(IntegrityError) as refusal:
                attempt()
            assert "dis store reindex" in str(refusal.value.hint)
        assert store.object_path(objects[0]).is_dir()


def test_an_open_store_sees_an_index_that_was_made_anew(filled: Store) -> None:
    objects = filled.objects()
    with Store.open(filled.path) as other:
        (filled.path / "index.sqlite").unlink()
        with pytest.raises(IntegrityError):
            other.objects()
        other.reindex()
        assert sorted(filled.objects()) == sorted(objects)
        new = write_text(filled, "new")
        assert other.is_valid(new)
    # The log of the lost index is kept: it may hold what nothing else does.
    (kept,) = (filled.path / "quarantine").iterdir()
    assert kept.name.startswith("index.sqlite-wal-")


def test_closures_are_admitted_whole_or_not(store: Store) -> None:
    inner, sound = write_text(store, "inner"), write_text(store, "sound")
    middle = write_tree(store, {}, {"r": (inner, None)})
    outer = write_tree(store, {}, {"r": (middle, None), "s": (sound, None)})
    file = store.file_path(inner, "text")
    file.chmod(0o644)
    file.write_bytes(b"INNER")
    file.chmod(0o444)
    report = store.reindex()
    assert report.objects == (sound,)
    assert set(report.incomplete) == {middle, outer}
    assert [(problem.kind, problem.subject) for problem in report.problems] == [("changed", inner)]
    assert not store.is_valid(outer)
    kept = {path.name[:64] for path in (store.path / "quarantine").iterdir()}
    assert kept == {inner}
    # Written again, the missing one completes the others.
    assert write_text(store, "inner") == inner
    assert set(store.reindex().objects) == {inner, middle, outer, sound}


def test_what_is_damaged_is_quarantined_and_never_deleted(filled: Store) -> None:
    derivation = Digest.of(b'{"format":1,"type":"derivation"}')
    damaged = [
        filled.path / "derivations" / derivation[:2] / f"{derivation}.json",
        next(filled.path.joinpath("realisations").rglob("*.json")),
    ]
    lost = write_text(filled, "its manifest is lost")
    (filled.path / "manifests" / lost[:2] / f"{lost}.json").unlink()
    for path in damaged:
        path.chmod(0o644)
        path.write_bytes(b"spoiled")
    report = filled.reindex()
    assert sorted(problem.kind for problem in report.problems) == [
        "damaged derivation",
        "damaged manifest",
        "damaged realisation",
    ]
    kept = {path.name.rpartition("-")[0] for path in (filled.path / "quarantine").iterdir()}
    assert kept == {lost, *(path.name for path in damaged)}
    assert filled.verify(jobs=1).ok


def test_a_tree_of_wrong_mode_is_not_admitted(store: Store) -> None:
    digest = write_text(store, "x")
    store.object_path(digest).chmod(0o755)
    assert [problem.kind for problem in store.reindex().problems] == ["wrong mode"]
    assert not store.is_valid(digest)


def test_a_manifest_without_a_tree_is_not_admitted(store: Store) -> None:
    digest = write_text(store, "x")
    durability.remove_tree(store.object_path(digest))
    assert [problem.kind for problem in store.reindex().problems] == ["missing"]
    assert store.objects() == []


def test_sha256_comes_back(store: Store) -> None:
    write_text(store, "x")
    delete_index(store)
    with Store.open(store.path) as again:
        again.reindex()
        assert again.sha256_of(Digest.of(b"x")) == Sha256.of(b"x")


def test_a_damaged_page_is_noticed_and_repaired(filled: Store, tmp_path: Path) -> None:
    before = facts(filled)
    filled.close()
    index = filled.path / "index.sqlite"
    data = bytearray(index.read_bytes())
    for page in range(4096, len(data), 4096):
        data[page : page + 64] = b"\xff" * 64
    index.write_bytes(data)
    with Store.open(filled.path) as store:
        with pytest.raises(IntegrityError, match="damaged"):
            store.objects()
        store.reindex()
        assert facts(store) == before
