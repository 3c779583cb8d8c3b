import sqlite3

import apsw
import pytest

from builds import build_of
from dis_store import Digest, IntegrityError, Store, UnfitEnvironmentError
from dis_store import index as index_module
from dis_store.errors import DamagedIndexError
from dis_store.index import Index
from trees import write_text, write_tree


@pytest.fixture
def index(store: Store) -> Index:
    return store._foundation.index


def test_the_settings_are_those_that_survive_a_power_cut(index: Index) -> None:
    assert index.value("PRAGMA journal_mode") == "wal"
    assert index.value("PRAGMA synchronous") == 2
    assert index.value("PRAGMA foreign_keys") == 1
    assert tuple(map(int, apsw.sqlite_lib_version().split("."))) >= (3, 51, 3)


def test_a_setting_that_did_not_take_is_noticed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    pragma = index_module._pragma

    def unheard(connection: apsw.Connection, text: str) -> object:
        return 1 if text == "synchronous" else pragma(connection, text)

    monkeypatch.setattr(index_module, "_pragma", unheard)
    with pytest.raises(UnfitEnvironmentError, match="cannot be made safe"):
        store.objects()


def test_a_transaction_that_fails_changes_nothing(index: Index) -> None:
    with pytest.raises(ZeroDivisionError), index.transaction() as transaction:
        write_row(transaction)
    assert index.query("SELECT * FROM derivations") == []


def write_row(transaction: index_module.Transaction) -> None:
    transaction.execute("INSERT INTO derivations(digest) VALUES ('x')")
    raise ZeroDivisionError


def test_what_is_referred_to_cannot_be_deleted(store: Store, index: Index) -> None:
    inner = write_text(store, "inner")
    outer = write_tree(store, {}, {"r": (inner, None)})
    with pytest.raises(IntegrityError), index.transaction() as transaction:
        transaction.execute("DELETE FROM objects WHERE digest = ?", (inner,))
    assert store.objects() == [inner, outer]
    assert (store.references(outer), store.referrers(inner)) == ([inner], [outer])


def test_a_writer_that_waited_in_vain_is_told_so_in_plain_words(
    store: Store, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "_BUSY_MILLISECONDS", 1)
    index.close()
    index.query("SELECT 1")
    other = apsw.Connection(str(store.path / "index.sqlite"))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(UnfitEnvironmentError) as refusal:
        store.remember_plan(Digest.of(b"x"), "value", [])
    assert "is busy" in refusal.value.what
    assert "database is locked" not in str(refusal.value)
    other.close()


def test_an_object_that_is_not_there_has_no_size_and_no_closure(store: Store) -> None:
    with pytest.raises(IntegrityError, match="not in the store"):
        store.object_size(Digest.of(b"nothing"))
    with pytest.raises(IntegrityError, match="not in the store"):
        store.closure([Digest.of(b"nothing")])


def test_a_text_that_a_damaged_page_calls_bytes_is_damage_and_is_made_anew(store: Store) -> None:
    digest = write_text(store, "x")
    build = store.add_realisation(build_of("a build", {"out": digest}))
    store.close()
    connection = sqlite3.connect(store.path / "index.sqlite")
    connection.execute("UPDATE realisations SET record = CAST(record AS BLOB)")
    connection.commit()
    connection.close()
    with Store.open(store.path) as again:
        for question in (again.chosen, again.realisations):
            with pytest.raises(DamagedIndexError, match="bytes are where text must be"):
                question(build.key)
        with pytest.raises(DamagedIndexError):
            again.verify(None)
        assert again.reindex().problems == ()
        found = again.chosen(build.key)
        assert found is not None
        assert found.outputs == {"out": digest}


def test_a_record_that_a_damaged_page_calls_a_number_is_damage(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = store.add_realisation(build_of("a build", {"out": write_text(store, "x")}))
    monkeypatch.setattr(Index, "query", lambda *_: [(7,)])
    for question in (store.chosen, store.realisations):
        with pytest.raises(DamagedIndexError, match="damaged"):
            question(build.key)
