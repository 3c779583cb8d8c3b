import os
from pathlib import Path

import pytest

from builds import key_of
from dis_store import Digest, Store, UnfitEnvironmentError, temp_roots
from dis_store.layout import Layout
from dis_store.locks import Locks, try_lock
from dis_store.platform_linux import write_all
from dis_store.temp_roots import TempRoots, live_temp_roots
from processes import at_once, kill_self, killed_in
from trees import write_text

A, B = key_of("a"), key_of("b")


def test_what_was_added_is_alive_until_it_is_closed(store: Store) -> None:
    layout = Layout(store.path)
    mine = TempRoots(layout, Locks(layout))
    mine.add([A, B, A])
    mine.add([A])
    assert live_temp_roots(layout, sweep=True) == {A, B}
    mine.close()
    assert live_temp_roots(layout, sweep=True) == set()
    assert list(layout.room("temproots").iterdir()) == []


def test_a_dead_process_keeps_nothing(store: Store) -> None:
    def die() -> None:
        Store.open(store.path).protect(A)
        kill_self()

    killed_in(die)
    layout = Layout(store.path)
    assert len(list(layout.room("temproots").iterdir())) == 1
    assert live_temp_roots(layout, sweep=False) == set()
    assert len(list(layout.room("temproots").iterdir())) == 1
    live_temp_roots(layout, sweep=True)
    assert list(layout.room("temproots").iterdir()) == []


def test_the_file_bears_the_boot_and_no_process(store: Store) -> None:
    store.protect(A)
    (path,) = (store.path / "temproots").iterdir()
    boot = Path("/proc/sys/kernel/random/boot_id")
    if boot.exists():
        assert path.name.startswith(boot.read_text().strip())
    assert str(os.getpid()) not in path.name.split("-")
    assert path.read_text().split() == [A]


def test_half_a_line_spoils_no_other(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(store.path)
    store.protect(A)

    def half(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[:30])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(temp_roots, "write_all", half)
        with pytest.raises(UnfitEnvironmentError):
            store.protect(B)
    assert live_temp_roots(layout, sweep=False) == {A}
    store.protect(B)
    assert live_temp_roots(layout, sweep=False) == {A, B}


def test_somebody_who_sweeps_meanwhile_takes_nothing_away(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = store.path / "temproots"
    removed: list[str] = []

    def swept_first(descriptor: int) -> bool:
        if not removed:
            (path,) = room.iterdir()
            path.unlink()
            removed.append(path.name)
        return try_lock(descriptor)

    monkeypatch.setattr(temp_roots, "try_lock", swept_first)
    store.protect(A)
    (path,) = room.iterdir()
    assert path.name not in removed
    assert path.read_text().split() == [A]


def test_the_root_is_there_before_validity_is_asked_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = write_text(store, "x")
    store.remember_plan(A, "value", [digest])
    store.close()
    layout = Layout(store.path)
    for ask in (lambda: store.protect(digest), lambda: store.recall_plan(A)):
        rooted: list[set[Digest]] = []
        are_valid = type(store._foundation).are_valid

        def watched(self: object, digests: list[Digest]) -> bool:
            rooted.append(live_temp_roots(layout, sweep=False))  # noqa: B023 - used in this turn only
            return are_valid(self, digests)  # type: ignore[arg-type] # noqa: B023

        with monkeypatch.context() as patched:
            patched.setattr(type(store._foundation), "are_valid", watched)
            assert ask()
        assert rooted == [{digest}]
        store.close()


def test_a_collection_that_is_at_work_is_waited_for(store: Store) -> None:
    digest = write_text(store, "x")
    store.close()
    reading, writing = os.pipe()

    def collect() -> None:
        mine = Store.open(store.path)
        # The plan of the collection is made, and nothing is deleted yet.
        mine.collect_garbage(progress=lambda *_: write_all(writing, b"."))

    def ask() -> None:
        os.read(reading, 1)
        mine = Store.open(store.path)
        # Asked in the middle of it: the answer is what holds afterwards.
        assert not mine.protect(digest)
        assert not mine.object_path(digest).exists()

    at_once([collect, ask])
    os.close(reading)
    os.close(writing)
