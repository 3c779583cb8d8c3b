import os
from pathlib import Path

import pytest

from builds import key_of
from descriptors import nothing_left_open
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


def lines(room: Path) -> list[str]:
    (path,) = room.iterdir()
    return path.read_text("ascii").split()


def test_each_name_is_written_once(store: Store) -> None:
    layout = Layout(store.path)
    room = layout.room("temproots")
    mine = TempRoots(layout, Locks(layout))
    mine.add([])
    assert list(room.iterdir()) == []
    mine.add([A, B, A])
    mine.add([B])
    mine.add([B, A])
    assert lines(room) == [A, B]
    mine.close()


def test_what_was_given_up_can_be_held_again(store: Store) -> None:
    layout = Layout(store.path)
    mine = TempRoots(layout, Locks(layout))
    with nothing_left_open():
        for _ in range(2):
            mine.add([A])
            assert live_temp_roots(layout, sweep=False) == {A}
            mine.close()
            assert list(layout.room("temproots").iterdir()) == []
        mine.close()


def test_what_was_swept_already_can_be_given_up(store: Store) -> None:
    layout = Layout(store.path)
    mine = TempRoots(layout, Locks(layout))
    mine.add([A])
    (path,) = layout.room("temproots").iterdir()
    path.unlink()
    with nothing_left_open():
        mine.close()
    mine.add([A])
    assert live_temp_roots(layout, sweep=False) == {A}
    mine.close()


def test_somebody_elses_look_closes_what_it_opens_and_reads_what_is_no_text(store: Store) -> None:
    layout = Layout(store.path)
    mine = TempRoots(layout, Locks(layout))
    mine.add([A])
    (path,) = layout.room("temproots").iterdir()
    with path.open("ab") as file:
        file.write(b"\n\xff\xfe\n")
    mine.add([B])
    with nothing_left_open():
        assert live_temp_roots(layout, sweep=True) == {A, B}
    mine.close()


def test_a_process_that_ends_while_it_is_looked_at_keeps_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(store.path)
    mine = TempRoots(layout, Locks(layout))
    mine.add([A])
    iterdir = Path.iterdir

    def with_one_that_is_gone(room: Path) -> list[Path]:
        return [room / "gone", *iterdir(room)]

    monkeypatch.setattr(Path, "iterdir", with_one_that_is_gone)
    assert live_temp_roots(layout, sweep=True) == {A}
    monkeypatch.undo()
    mine.close()


def test_a_file_that_leads_elsewhere_is_not_followed(store: Store) -> None:
    layout = Layout(store.path)
    outside = store.path.parent / "outside"
    outside.write_text(A)
    (layout.room("temproots") / "link").symlink_to(outside)
    with pytest.raises(OSError, match="symbolic link"):
        live_temp_roots(layout, sweep=True)
    assert outside.read_text() == A


def test_a_file_that_was_swept_before_it_was_held_is_closed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(store.path)
    room = layout.room("temproots")
    mine = TempRoots(layout, Locks(layout))
    answers = [False]

    def somebody_has_it(descriptor: int) -> bool:
        return answers.pop() if answers else try_lock(descriptor)

    monkeypatch.setattr(temp_roots, "try_lock", somebody_has_it)
    with nothing_left_open():
        mine.add([A])
        held = [path for path in room.iterdir() if path.read_text()]
        assert [path.read_text().split() for path in held] == [[A]]
        mine.close()


def test_other_users_of_a_store_may_look_at_what_is_held(store: Store) -> None:
    mask = os.umask(0)
    try:
        store.protect(A)
    finally:
        os.umask(mask)
    (path,) = (store.path / "temproots").iterdir()
    assert path.stat().st_mode & 0o7777 == 0o644


def test_what_is_held_is_written_while_no_collection_decides(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(store.path)
    locks = Locks(layout)
    mine = TempRoots(layout, locks)
    seen: list[bool] = []

    def watched(descriptor: int, data: bytes) -> None:
        other = os.open(layout.room("locks") / "gc.lock", os.O_RDWR)
        seen.append(try_lock(other))
        os.close(other)
        write_all(descriptor, data)

    monkeypatch.setattr(temp_roots, "write_all", watched)
    mine.add([A])
    mine.add([B])
    assert seen == [False, False]
    mine.close()
