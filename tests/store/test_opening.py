import errno
import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

import dis_store
from auditing import audit
from dis_store import (
    Digest,
    IntegrityError,
    InvalidInputError,
    Root,
    Store,
    UnfitEnvironmentError,
    layout,
    platform_linux,
)
from processes import at_once, kill_self, killed_in
from trees import write_text


def test_a_store_is_made_where_nothing_is(tmp_path: Path) -> None:
    for place in (tmp_path / "new", tmp_path / "deep" / "er", tmp_path / "empty"):
        if place.name == "empty":
            place.mkdir()
        with Store.open(place) as store:
            assert store.path == place
            assert store.objects() == []
        assert json.loads((place / "format.json").read_bytes()) == {"format": 1, "type": "store"}
        assert audit(place) == []


def test_a_store_is_opened_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open(Path("here")) as store:
        assert store.path == tmp_path / "here"


def test_no_store_is_made_when_that_is_not_wanted(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="there is no store"):
        Store.open(tmp_path / "none", create=False)
    assert list(tmp_path.iterdir()) == []
    Store.open(tmp_path / "one").close()
    Store.open(tmp_path / "one", create=False).close()


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InvalidInputError, match="not a store") as refusal:
        Store.open(tmp_path)
    assert refusal.value.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InvalidInputError, match="not a directory"):
            Store.open(place)


@pytest.mark.parametrize(
    "record",
    [b"", b"[]", b'{"type":"tree"}', b'{"type":"store"}', b'{"type":"store","format":"1"}'],
)
def test_a_format_that_cannot_be_read_is_refused(tmp_path: Path, record: bytes) -> None:
    (tmp_path / "format.json").write_bytes(record)
    with pytest.raises(InvalidInputError):
        Store.open(tmp_path)


@pytest.mark.parametrize("damage", [None, b"", b"xx", b"{}", b'{"format":0,"type":"store"}'])
def test_a_store_whose_format_is_lost_or_damaged_is_known_and_its_way_on_leads_on(
    tmp_path: Path, damage: bytes | None
) -> None:
    path = tmp_path / "a store"
    with Store.open(path) as store:
        digest = write_text(store, "x")
    record = path / "format.json"
    record.unlink()
    if damage is not None:
        record.write_bytes(damage)
    for create in (True, False):
        with pytest.raises(IntegrityError, match="does not say which format it has") as refusal:
            Store.open(path, create=create)
    assert "format.json" in str(refusal.value.cause)
    command = str(refusal.value.hint).partition("made the store: ")[2]
    subprocess.run(["sh", "-c", command], check=True)
    with Store.open(path) as store:
        assert store.is_valid(digest)


@pytest.mark.parametrize("log", ["kept", "gone"])
def test_a_store_that_may_only_be_read_answers_questions_and_is_left_as_it_is(
    store: Store, monkeypatch: pytest.MonkeyPatch, log: str
) -> None:
    digest = write_text(store, "x")
    store.set_root("name", Root(digest))
    store.close()
    if log == "gone":
        for path in store.path.glob("index.sqlite-*"):
            path.unlink()
    stray = store.path / "tmp" / "stray"
    stray.mkdir()
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    before = sorted(store.path.rglob("*"))
    with Store.open(store.path, reading=True) as opened:
        assert opened.read_bytes(digest, "text") == b"x"
        assert opened.protect(digest)
        assert list(opened.roots()) == ["name"]
        assert opened.verify(None).ok
        if log == "gone":
            assert sorted(store.path.rglob("*")) == before
        with pytest.raises((UnfitEnvironmentError, IntegrityError)):
            opened.remember_outputs({Digest.of(b"derivation"): {"out": digest}})
    assert stray.is_dir()
    with Store.open(store.path) as opened:
        assert opened.is_valid(digest)
    assert not stray.exists()


def test_a_store_in_which_nothing_happened_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.open(tmp_path / "store").close()
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with Store.open(tmp_path / "store", reading=True) as store:
        assert store.objects() == []
        assert store.verify(None).ok


def test_a_log_that_cannot_be_read_is_not_left_out(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text(store, "x")
    copy = tmp_path / "copy"
    shutil.copytree(store.path, copy, symlinks=True)  # with the log of an index that is open
    assert (copy / "index.sqlite-wal").stat().st_size > 0
    connect = apsw.Connection

    def refuse(name: str, **options: Any) -> apsw.Connection:
        if "mode=ro" in name:
            raise apsw.CantOpenError
        return connect(name, **options)

    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    monkeypatch.setattr(apsw, "Connection", refuse)
    with (
        Store.open(copy, reading=True) as opened,
        pytest.raises(UnfitEnvironmentError, match=r"index of the store .* cannot be read"),
    ):
        opened.objects()


def test_a_newer_format_is_refused_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "format.json").write_bytes(b'{"format":2,"type":"store"}')
    with pytest.raises(UnfitEnvironmentError, match="too new") as refusal:
        Store.open(tmp_path)
    assert refusal.value.exit_code == 5
    assert "upgrade dis" in str(refusal.value.hint)
    assert [path.name for path in tmp_path.iterdir()] == ["format.json"]


def test_a_newer_index_is_refused(store: Store) -> None:
    store.objects()
    store._foundation.index.query("PRAGMA user_version=99")
    store.close()
    with Store.open(store.path) as again, pytest.raises(UnfitEnvironmentError, match="too new"):
        again.objects()


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform_linux, "is_network_file_system", lambda _: True)
    with pytest.raises(UnfitEnvironmentError, match="cannot be a store"):
        Store.open(tmp_path / "store")


def test_a_local_file_system_is_told_from_a_network_one(tmp_path: Path) -> None:
    assert not platform_linux.is_network_file_system(tmp_path)
    assert not platform_linux.is_network_file_system(Path("/proc"))


def test_a_store_on_several_file_systems_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.close()
    see = Path.stat

    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        found = list(see(path, follow_symlinks=follow_symlinks))
        found[2] += path.name == "trash"
        return os.stat_result(found)

    monkeypatch.setattr(Path, "stat", stat)
    with pytest.raises(UnfitEnvironmentError, match="several file systems"):
        Store.open(store.path)


def test_several_processes_may_make_a_store_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store"

    def make(number: int) -> None:
        with Store.open(path) as store:
            write_text(store, str(number % 2))

    at_once([partial(make, number) for number in range(6)])
    with Store.open(path) as store:
        assert len(store.objects()) == 2
    assert audit(path) == []


def test_what_a_dead_process_left_is_removed_and_what_a_living_one_does_is_not(
    store: Store,
) -> None:
    def die() -> None:
        with Store.open(store.path).new_tree() as tree:
            tree.write_bytes("deep/file", b"x")
            kill_self()

    killed_in(die)
    tmp = store.path / "tmp"
    (store.path / "trash" / "old").mkdir()
    (tmp / "stray").write_bytes(b"")
    with store.new_tree() as tree:
        tree.write_bytes("file", b"y")
        assert len(list(tmp.iterdir())) == 3
        Store.open(store.path).close()
        assert len(list(tmp.iterdir())) == 1
        digest = tree.register()
    assert store.read_bytes(digest, "file") == b"y"
    assert list((store.path / "trash").iterdir()) == []


def test_what_cannot_be_deleted_stops_no_question(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = write_text(store, "x")
    store.close()
    (store.path / "trash" / "left over").write_bytes(b"x")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr("dis_store.garbage_collection.trash.os.unlink", refuse)
        with Store.open(store.path, reading=True) as again:
            assert again.read_bytes(digest, "text") == b"x"
        with pytest.raises(UnfitEnvironmentError):
            Store.open(store.path)
    Store.open(store.path).close()
    assert audit(store.path) == []


def test_a_work_space_that_is_swept_in_the_making_is_made_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp = store.path / "tmp"
    swept: list[Path] = []
    chmod = Path.chmod

    def sweeping(path: Path, mode: int) -> None:
        if path.parent == tmp and not swept:
            path.rmdir()
            swept.append(path)
        chmod(path, mode)

    monkeypatch.setattr(Path, "chmod", sweeping)
    digest = write_text(store, "x")
    assert swept
    assert store.read_bytes(digest, "text") == b"x"


def test_another_store_may_be_opened_after_closing_and_twice(store: Store) -> None:
    digest = write_text(store, "x")
    store.close()
    store.close()
    assert store.is_valid(digest)
    with Store.open(store.path) as one, Store.open(store.path) as other:
        assert one.protect(digest)
        assert other.protect(digest)


def test_a_prefix_of_a_digest_finds_its_object(store: Store) -> None:
    digest = write_text(store, "x")
    for length in (8, 20, 64):
        assert store.find(digest[:length]) == digest
    for prefix in (digest[:7], "", "0" * 65, digest[:8].upper(), "%" * 8, "g" * 8):
        with pytest.raises(InvalidInputError, match="no digest"):
            store.find(prefix)
    other = "0" if digest[0] != "0" else "1"
    with pytest.raises(InvalidInputError, match="no object"):
        store.find(other + digest[1:8])


def test_a_prefix_of_several_digests_is_refused_with_all_of_them(store: Store) -> None:
    names = ["abcdef00" + "0" * 56, "abcdef00" + "1" * 56]
    with store._foundation.index.transaction() as transaction:
        transaction.execute_many(
            "INSERT INTO objects(digest, size) VALUES (?, 0)", [(name,) for name in names]
        )
    with pytest.raises(InvalidInputError) as refusal:
        store.find("abcdef00")
    assert all(name in str(refusal.value.cause) for name in names)
    assert store.find(names[0][:9]) == names[0]


HEAVY = ["pydantic", "numpy", "rfc8785", "asyncio", "filelock", "jinja2", "tokenizers", "click"]
NO_OP = """
import sys
from functools import partial
from pathlib import Path
from dis_store import Digest, Store
store = Store.open(Path(sys.argv[1]))
print(store.recall_plan(Digest.of(b"key")))
print(sorted(set(sys.argv[2:]) & sys.modules.keys()))
"""


def test_recalling_a_plan_imports_nothing_heavy(store: Store) -> None:
    store.remember_plan(dis_store.Digest.of(b"key"), "value", [write_text(store, "x")])
    done = subprocess.run(
        [sys.executable, "-c", NO_OP, str(store.path), *HEAVY],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "value\n[]\n"


def test_importing_the_package_imports_none_of_its_modules() -> None:
    code = "import sys, dis_store; print([n for n in sys.modules if n.startswith('dis_store.')])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_every_public_name_is_there() -> None:
    assert dir(dis_store) == dis_store.__all__
    for name in dis_store.__all__:
        assert getattr(dis_store, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = dis_store.Nothing  # type: ignore[attr-defined]


def test_the_layout_knows_where_everything_is(tmp_path: Path) -> None:
    digest = dis_store.Digest.of(b"x")
    rooms = layout.Layout(tmp_path)
    assert rooms.object(digest) == tmp_path / "objects" / digest[:2] / digest
    assert rooms.link(digest, executable=True).name == f"{digest}-x"
