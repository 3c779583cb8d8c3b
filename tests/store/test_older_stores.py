"""A store that an earlier version made opens, with all that was in it; `canned/make_store.py` made these."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

import dis_store
from auditing import audit
from canned_stores import ARCHIVES, PRESENT, unpack
from dis_store import Digest, Sha256, Store, export_closures, index_schema, tensor_set_digest
from dis_store import opening as opening_module
from trees import Blob, write_tree

KEY = Digest.of(b"the key of the canned build")
PLAN = Digest.of(b"the key of the canned plan")
DERIVATION = Digest.of(b'{"format":1,"inputs":{},"name":"canned","type":"derivation"}')


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    archive: Path = request.param
    return unpack(archive, tmp_path / "old")


@pytest.fixture
def without_tensors(tmp_path: Path) -> Path:
    """A store whose index keeps no tensors: one of version 1."""
    return unpack(ARCHIVES[0], tmp_path / "old")


@pytest.fixture
def frozen(old: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The store, opened as by somebody who may not write to it."""
    (old / "index.sqlite-wal").unlink()
    monkeypatch.setattr(opening_module, "_may_only_be_read", lambda _: True)
    before = (old / "index.sqlite").read_bytes()
    with Store.open(old, reading=True) as store:
        yield store
    assert (old / "index.sqlite").read_bytes() == before


def version(store: Path) -> int:
    connection = sqlite3.connect(store / "index.sqlite")
    try:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
    finally:
        connection.close()
    return int(found)


def schema(store: Path) -> set[tuple[str, str]]:
    connection = sqlite3.connect(store / "index.sqlite")
    try:
        return set(connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql NOT NULL"))
    finally:
        connection.close()


def check_content(store: Store) -> Digest:
    """Fail unless everything is there; return the object that the root keeps."""
    root = store.root("canned")
    assert root is not None
    assert store.read_bytes(root.object, "text") == b"hello\n"
    for data in (b"hello\n", b"no root keeps this\n"):
        assert store.sha256_of(Digest.of(data)) == Sha256.of(data)
    assert len(store.objects()) == 3
    (record,) = store.realisations(KEY)
    assert record.outputs == {"out": root.object}
    assert store.references(root.object) == [record.inputs["weights"].object]
    return root.object


def test_there_is_a_store_of_every_version_before_this_one() -> None:
    expected = [f"index-{number}.tar.gz" for number in range(1, index_schema.VERSION)]
    assert [path.name for path in ARCHIVES] == expected
    assert set(index_schema.UPGRADES) == set(range(index_schema.VERSION))
    assert set(index_schema.FOR_READING) == set(range(1, index_schema.VERSION + 1))


def test_the_script_makes_a_store_of_this_version(tmp_path: Path) -> None:
    script = shutil.copy(ARCHIVES[0].with_name("make_store.py"), tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(Path(dis_store.__file__).parents[1])}
    subprocess.run([sys.executable, script], env=environment, check=True)
    made = unpack(tmp_path / f"index-{index_schema.VERSION}.tar.gz", tmp_path / "made")
    with Store.open(made) as store:
        assert store.tensor_set(check_content(store)) is not None


def test_a_store_of_this_version_from_before_is_read_and_written_as_it_was(tmp_path: Path) -> None:
    """Whoever changes what is on disk, and not the version, is found out here."""
    path = unpack(PRESENT, tmp_path / "before")
    before = schema(path)
    with Store.open(path) as store:
        output = check_content(store)
        assert store.recall_plan(PLAN) == "the answer"
        assert store.outputs_of([DERIVATION]) == {DERIVATION: {"out": output}}
        assert store.tensor_set(output) is not None
        assert store.verify(jobs=1).ok
        assert store.reindex().problems == ()
        assert check_content(store) == output
        write_tree(store, {"new": Blob(b"new")})
    assert version(path) == index_schema.VERSION
    assert schema(path) == before
    assert audit(path) == []
    with Store.open(path) as store:
        store.collect_garbage()
        assert len(store.objects()) == 2
    assert schema(path) == before
    assert audit(path) == []


def test_everything_is_there_and_more_can_be_added(old: Path) -> None:
    before = version(old)
    with Store.open(old) as store:
        output = check_content(store)
        assert store.recall_plan(PLAN) == "the answer"
        assert store.outputs_of([DERIVATION]) == {DERIVATION: {"out": output}}
        assert store.verify(jobs=1).ok
        new = write_tree(store, {"new": Blob(b"new")})
        assert store.is_valid(new)
    assert before < index_schema.VERSION
    assert version(old) == index_schema.VERSION
    assert audit(old) == []


def test_the_index_becomes_that_of_a_new_store(old: Path, store: Store) -> None:
    with Store.open(old) as opened:
        opened.objects()
    store.objects()
    assert schema(old) == schema(store.path)


def test_tensors_are_found_when_they_are_asked_for(without_tensors: Path) -> None:
    with Store.open(without_tensors) as store:
        output = check_content(store)
        assert store.census().tensors.unscanned_objects == 3
        assert store.tensor_set(output) is None
        names = [each.name for file in store.files(output) for each in store.tensors(file)]
        assert names == ["a", "b", "c", "d"]
        count = store.census().tensors
        assert (count.tensors, count.unscanned_objects) == (4, 3)
        assert store.tensor_set(output) is not None


def test_tensors_are_found_by_a_reindexing(old: Path) -> None:
    with Store.open(old) as store:
        output = check_content(store)
        report = store.reindex()
        assert report.problems == ()
        assert check_content(store) == output
        count = store.census().tensors
        assert (count.tensors, count.unscanned_objects) == (4, 0)


def test_garbage_goes_and_what_is_kept_stays(old: Path) -> None:
    with Store.open(old) as store:
        check_content(store)
        for file in store.files(store.objects()[0]):
            store.tensors(file)
        unscanned = store.census().tensors.unscanned_objects
    with Store.open(old) as store:
        store.collect_garbage()
        assert len(store.objects()) == 2
        count = store.census().tensors
        assert (count.tensors, count.unscanned_objects) == (4, max(0, unscanned - 1))
    assert audit(old) == []


def test_who_may_only_read_sees_everything_and_changes_nothing(frozen: Store) -> None:
    output = check_content(frozen)
    tensors = [each for file in frozen.files(output) for each in frozen.tensors(file)]
    assert tensor_set_digest(tensors)
    count = frozen.census().tensors
    # What nobody had looked at before is not counted now either.
    assert (count.tensors, count.unscanned_objects) in {(0, 3), (4, 0)}
    assert (frozen.tensor_set(output) is None) == (count.tensors == 0)
    export_closures(frozen, [output], BytesIO())


@pytest.mark.parametrize(
    "moment", ["BEGIN", "CREATE INDEX files_without_sha256", "PRAGMA user_version"]
)
def test_a_process_that_dies_while_it_changes_the_index_leaves_the_old_one(
    old: Path, moment: str
) -> None:
    """Each statement is made the last one, by an index that cannot be written any further."""
    copy = old.with_name("copy")
    shutil.copytree(old, copy, symlinks=True)
    pid = os.fork()
    if pid == 0:  # pragma: no cover - ends without a word, as by SIGKILL
        import apsw

        def die(_: object, statement: str, __: object) -> bool:
            if statement.lstrip().startswith(moment):
                os._exit(1 if moment == "BEGIN" else 2)
            return True

        apsw.connection_hooks.append(lambda connection: connection.set_exec_trace(die))
        with contextlib.suppress(BaseException), Store.open(copy) as store:
            store.objects()
        os._exit(3)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) in {1, 2}
    with Store.open(copy) as store:
        check_content(store)
    assert version(copy) == index_schema.VERSION
