"""Signed documents beside the records of builds: kept with them, gone with them, believed in nothing."""

import json
import threading
from pathlib import Path

import pytest

from builds import build_of
from dis_store import Root, Store
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError
from dis_store.signatures import MAX_BYTES, MAX_OF_KEY

DOCUMENT = b'{"signed":"by somebody"}'


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


def built(store: Store, text: str = "a") -> tuple[Digest, Digest]:
    """Register an object and a build of it; return its key and the object."""
    with store.new_tree() as tree:
        tree.write_bytes("text", text.encode())
        digest = tree.register()
    record = store.add_realisation(build_of(f"key of {text}", {"out": digest}))
    return record.key, digest


def fresh(store: Store) -> Store:
    """Open the store again, as a process that protects nothing."""
    path = store.path
    store.close()
    return Store.open(path)


def place(store: Store, key: Digest, name: str) -> Path:
    return store.path / "signatures" / key[:2] / key / f"{name}.json"


def test_what_was_kept_is_found_under_its_key_and_digest(store: Store) -> None:
    key, _ = built(store)
    digest = store.add_signature(key, DOCUMENT)
    assert store.signatures(key) == {digest: DOCUMENT}
    assert digest == Digest.of(DOCUMENT)
    assert place(store, key, digest).read_bytes() == DOCUMENT


def test_keeping_the_same_twice_changes_nothing(store: Store) -> None:
    key, _ = built(store)
    digest = store.add_signature(key, DOCUMENT)
    before = place(store, key, digest).stat().st_ino
    assert store.add_signature(key, DOCUMENT) == digest
    assert place(store, key, digest).stat().st_ino == before


def test_signatures_of_one_key_are_not_those_of_another(store: Store) -> None:
    one, _ = built(store, "one")
    other, _ = built(store, "other")
    store.add_signature(one, DOCUMENT)
    assert store.signatures(other) == {}


def test_a_key_without_a_record_has_no_signature(store: Store) -> None:
    with pytest.raises(InvalidInputError, match="no build of the key"):
        store.add_signature(Digest.of(b"nothing"), DOCUMENT)
    assert not (store.path / "signatures").exists()


def test_what_is_too_large_is_refused(store: Store) -> None:
    key, _ = built(store)
    with pytest.raises(InvalidInputError, match="bytes"):
        store.add_signature(key, b"x" * (MAX_BYTES + 1))
    assert store.signatures(key) == {}


def test_a_key_has_so_many_and_no_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dis_store.signatures.MAX_OF_KEY", 3)
    key, _ = built(store)
    for number in range(3):
        store.add_signature(key, b"%d" % number)
    with pytest.raises(InvalidInputError, match="already"):
        store.add_signature(key, b"one more")
    assert len(store.signatures(key)) == 3 < MAX_OF_KEY


def test_a_signature_keeps_nothing_alive_and_goes_with_its_record(store: Store) -> None:
    key, digest = built(store)
    store.add_signature(key, DOCUMENT)
    store = fresh(store)
    report = store.collect_garbage()
    assert [each.digest for each in report.objects] == [digest]
    assert store.signatures(key) == {}
    assert not place(store, key, Digest.of(DOCUMENT)).parent.exists()


def test_a_signature_stays_while_a_record_of_its_key_stays(store: Store) -> None:
    key, digest = built(store)
    store.add_signature(key, DOCUMENT)
    gone, _ = built(store, "gone")
    store.add_signature(gone, DOCUMENT)
    store.set_root("kept", Root(digest, key=key))
    store = fresh(store)
    store.collect_garbage()
    assert list(store.signatures(key).values()) == [DOCUMENT]
    assert store.signatures(gone) == {}


def test_a_dry_run_takes_no_signature(store: Store) -> None:
    key, _ = built(store)
    store.add_signature(key, DOCUMENT)
    store = fresh(store)
    store.collect_garbage(dry_run=True)
    assert store.signatures(key)


def test_what_a_crash_left_of_a_deleted_record_goes_with_the_next_collection(store: Store) -> None:
    key, _ = built(store)
    store.add_signature(key, DOCUMENT)
    stray = place(store, Digest.of(b"a key that is gone"), Digest.of(DOCUMENT))
    stray.parent.mkdir(parents=True)
    stray.write_bytes(DOCUMENT)
    store.collect_garbage()
    assert not stray.parent.exists()
    assert store.signatures(key)


def test_signatures_outlive_the_index(store: Store) -> None:
    key, _ = built(store)
    store.add_signature(key, DOCUMENT)
    report = store.reindex()
    assert not report.problems
    assert list(store.signatures(key).values()) == [DOCUMENT]
    store = fresh(store)
    assert list(store.signatures(key).values()) == [DOCUMENT]


@pytest.mark.parametrize("damage", ["changed", "cut", "renamed", "link", "directory"])
def test_a_damaged_signature_is_found_and_set_aside(store: Store, damage: str) -> None:
    key, _ = built(store)
    other = store.add_signature(key, b"another")
    digest = store.add_signature(key, DOCUMENT)
    path = place(store, key, digest)
    if damage == "renamed":
        path.rename(path.with_name("signature.json"))
    else:
        path.unlink()
    if damage == "changed":
        path.write_bytes(DOCUMENT.replace(b"some", b"none"))
    elif damage == "cut":
        path.write_bytes(DOCUMENT[:-1])
    elif damage == "link":
        target = store.path.parent / "outside"
        target.write_bytes(DOCUMENT)
        path.symlink_to(target)
    elif damage == "directory":
        path.mkdir()
    assert list(store.signatures(key)) == [other]
    report = store.verify()
    assert [problem.kind for problem in report.problems] == ["damaged signature"]
    assert any("dis sign" in remedy for remedy in report.remedies)
    assert [problem.kind for problem in store.reindex().problems] == ["damaged signature"]
    assert store.verify().ok
    assert len(list((store.path / "quarantine").iterdir())) == 1
    assert list(store.signatures(key)) == [other]


def test_a_repair_sets_a_damaged_signature_aside(store: Store) -> None:
    key, _ = built(store)
    path = place(store, key, store.add_signature(key, DOCUMENT))
    path.chmod(0o644)
    path.write_bytes(b"{}")
    report = store.repair(store.verify().problems)
    assert [loss.reason for loss in report.lost] == ["dis sign REF signs again"]
    assert store.verify().ok


def test_a_room_of_signatures_that_leads_elsewhere_is_refused(store: Store) -> None:
    key, _ = built(store)
    elsewhere = store.path.parent / "elsewhere"
    elsewhere.mkdir()
    (store.path / "signatures").symlink_to(elsewhere)
    path = store.path
    store.close()
    with pytest.raises(Exception, match="symlink"):
        Store.open(path)
    assert key
    assert not list(elsewhere.iterdir())


def test_many_threads_keep_what_each_of_them_brought(store: Store) -> None:
    key, _ = built(store)
    documents = [json.dumps({"number": number}).encode() for number in range(12)]
    failures: list[BaseException] = []

    def keep(document: bytes) -> None:
        try:
            store.add_signature(key, document)
        except BaseException as error:  # noqa: BLE001 - told by the test
            failures.append(error)

    threads = [threading.Thread(target=keep, args=(each,)) for each in documents * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(store.signatures(key).values()) == sorted(documents)
    assert not list((store.path / "tmp").iterdir())
