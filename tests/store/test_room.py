"""Whether there is room is told before anything is written, and what to remove when there is none."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dis_store import Retention, Root, Store
from dis_store.digest import Digest
from dis_store.errors import DiskFullError
from dis_store.store import Store as StoreClass
from dis_store.writing.downloads import downloading
from trees import Blob, write_text, write_tree

MIB = 1 << 20


@pytest.fixture
def kept(store: Store, tmp_path: Path) -> Store:
    """Return a store with what nothing keeps (1 MiB), two automatic roots (4 and 2 MiB) and a named one (16 MiB)."""
    del tmp_path
    for name, size in (("dead", 1), ("run.one", 4), ("run.two", 2), ("my golden", 16)):
        digest = write_text(store, name + "x" * (size * MIB - len(name)))
        if name != "dead":
            store.set_root(name, Root(digest, automatic=name.startswith("run")))
    store.close()
    return StoreClass.open(store.path)


@pytest.mark.parametrize(
    ("lacking", "advice"),
    [
        (MIB, "free 1.0 MiB that no root keeps: dis gc; or "),
        (MIB + 1, "free 3.0 MiB: dis root remove run.two && dis gc; or "),
        (4 * MIB, "free 5.0 MiB: dis root remove run.one && dis gc; or "),
        (6 * MIB, "free 7.0 MiB: dis root remove run.one run.two && dis gc; or "),
        (8 * MIB, "free 17.0 MiB: dis root remove 'my golden' && dis gc; or "),
        (20 * MIB, "free 21.0 MiB: dis root remove 'my golden' run.one && dis gc; or "),
    ],
)
def test_advice_names_the_roots_that_make_room(kept: Store, lacking: int, advice: str) -> None:
    with kept:
        assert kept.advice_for_room(lacking) == f"{advice}use another disk: --store PATH"


def test_advice_names_no_root_that_must_be_kept(kept: Store) -> None:
    with kept:
        root = kept.roots()["run.two"]
        kept.set_root("run.two", replace(root, retention=Retention(30, "the manifest m")))
        advice = kept.advice_for_room(MIB + 1)
    assert advice.startswith("free 5.0 MiB: dis root remove run.one && dis gc; or ")


def test_advice_says_when_nothing_makes_room(kept: Store) -> None:
    with kept:
        advice = kept.advice_for_room(1 << 40)
    assert advice == (
        "use another disk: --store PATH; here dis gc would free 1.0 MiB, and no root keeps enough"
    )


def test_advice_is_true(kept: Store) -> None:
    with kept:
        assert "dis root remove run.one run.two" in kept.advice_for_room(6 * MIB)
        for name in ("run.one", "run.two"):
            kept.remove_root(name)
        assert kept.collect_garbage().freed_bytes >= 6 * MIB


def test_many_roots_are_not_listed(store: Store) -> None:
    for number in range(6):
        name = f"run.{number}"
        store.set_root(name, Root(write_text(store, name * 1000), automatic=True))
    store.close()
    with Store.open(store.path) as again:
        assert "choose from: dis gc --dry-run" in again.advice_for_room(29_000)


def test_a_damaged_root_spoils_no_message(kept: Store) -> None:
    record = kept.path / "roots" / "run.one.json"
    record.chmod(0o644)
    record.write_text("{}")
    with kept:
        assert kept.advice_for_room(1).startswith("free what no root keeps: dis gc")


def test_too_many_files_are_refused_before_the_first_is_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.statvfs(store.path)
    few = SimpleNamespace(
        f_bavail=real.f_bavail, f_frsize=real.f_frsize, f_files=1000, f_favail=100
    )
    monkeypatch.setattr(os, "statvfs", lambda _path: few)
    with store.new_tree(expected_files=84):
        pass
    with pytest.raises(DiskFullError, match="101 needed, 100 free") as caught:
        store.check_room(0, files=85)
    assert "use another disk" in str(caught.value.hint)
    with pytest.raises(DiskFullError), store.new_tree(expected_files=85):
        pass
    assert list((store.path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("lacking", "advice"),
    [
        (1, "free 12 inodes that no root keeps: dis gc; or "),
        (12, "free 12 inodes that no root keeps: dis gc; or "),
        (13, "free 34 inodes: dis root remove run.small && dis gc; or "),
        (35, "free 54 inodes: dis root remove run.large && dis gc; or "),
        (60, "free 76 inodes: dis root remove run.large run.small && dis gc; or "),
        (80, "free 136 inodes: dis root remove golden && dis gc; or "),
        (
            999,
            "use another disk: --store PATH; here dis gc would free 12 inodes, and no root keeps",
        ),
    ],
)
def test_the_advice_for_inodes_names_the_roots_that_have_them(
    store: Store, monkeypatch: pytest.MonkeyPatch, lacking: int, advice: str
) -> None:
    for name, files in (("dead", 10), ("run.small", 20), ("run.large", 40), ("golden", 122)):
        digest = write_tree(
            store, {f"{name}-{n}": Blob(f"{name}{n}".encode()) for n in range(files)}
        )
        if name != "dead":
            store.set_root(name, Root(digest, automatic=name.startswith("run")))
    store.close()
    with StoreClass.open(store.path) as again:
        real = os.statvfs(store.path)
        few = SimpleNamespace(
            f_bavail=real.f_bavail, f_frsize=real.f_frsize, f_files=1000, f_favail=16 + 5 - lacking
        )
        monkeypatch.setattr(os, "statvfs", lambda _path: few)
        with pytest.raises(DiskFullError) as caught:
            again.check_room(0, files=5)
        assert str(caught.value.hint).startswith(advice)


def test_what_is_said_of_inodes_is_so(store: Store) -> None:
    digest = write_tree(store, {f"d/{n}": Blob(b"%d" % n) for n in range(30)})
    store.set_root("kept", Root(digest))
    (weight,) = store.weigh_roots()
    store.close()
    with StoreClass.open(store.path) as again:
        before = sum(1 for _ in store.path.rglob("*"))
        again.remove_root("kept")
        foretold = again.collect_garbage(dry_run=True).freed_inodes
        again.collect_garbage()
    gone = before - sum(1 for path in store.path.rglob("*"))
    # Each file had a name in links/ as well, and the tree a directory more.
    assert weight.only_inodes == foretold == 32
    assert gone - 30 >= 32


def test_too_many_bytes_are_refused_with_both_amounts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = SimpleNamespace(f_bavail=2048, f_frsize=4096, f_files=0, f_favail=0)
    monkeypatch.setattr(os, "statvfs", lambda _path: few)
    store.check_room(0)
    with pytest.raises(DiskFullError, match=r"11\.5 MiB needed, 8\.0 MiB free") as caught:
        store.check_room(10 * MIB)
    assert caught.value.exit_code == 5


def test_what_has_come_of_a_download_finds_no_room_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 8 * MIB
    key = Digest.of(b"a file")
    with downloading(store._foundation, key, lambda: None) as download:
        descriptor, _ = download.open()
        os.write(descriptor, bytes(size))
        os.fsync(descriptor)
        os.close(descriptor)
        little = SimpleNamespace(f_bavail=2 * MIB, f_frsize=1, f_files=0, f_favail=0)
        monkeypatch.setattr(os, "statvfs", lambda _: little)
        store.check_room(size)
        with pytest.raises(DiskFullError):
            store.check_room(2 * size)
        download.remove()
    with pytest.raises(DiskFullError):
        store.check_room(size)
