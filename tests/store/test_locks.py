import errno
import fcntl
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from builds import key_of
from descriptors import nothing_left_open, open_files
from dis_store import LockHolder, Store
from dis_store.errors import LockTimeoutError
from dis_store.layout import Layout
from dis_store.locks import Locks, locked_directory, sweep_build_locks, try_lock
from dis_store.patience import Patience
from processes import at_once, kill_self, killed_in

KEY = key_of("a")


def test_one_builder_at_a_time_has_a_key(store: Store) -> None:
    counter = store.path.parent / "counter"
    counter.write_text("0")

    def build() -> None:
        with Store.open(store.path) as mine:
            for _ in range(20):
                with mine.build_lock(KEY):
                    counter.write_text(str(int(counter.read_text()) + 1))

    at_once([build] * 4)
    assert counter.read_text() == "80"
    assert list((store.path / "locks" / "build").iterdir()) == []


def test_who_waits_is_told_who_builds(store: Store) -> None:
    told: list[LockHolder] = []
    waiting = threading.Event()

    def on_wait(holder: LockHolder) -> None:
        told.append(holder)
        waiting.set()

    def wait() -> None:
        with store.build_lock(KEY, on_wait):
            pass

    with store.build_lock(KEY):
        thread = threading.Thread(target=wait)
        thread.start()
        assert waiting.wait(60)
    thread.join()
    (holder,) = told
    assert holder.pid == os.getpid()
    assert holder.since.endswith("+00:00")
    assert holder.host
    assert holder.command


def test_a_builder_that_is_alone_is_told_nothing(store: Store) -> None:
    with store.build_lock(KEY, lambda _: pytest.fail("nobody else builds")):
        pass


def test_the_lock_of_a_dead_builder_is_free(store: Store) -> None:
    def die() -> None:
        with Store.open(store.path).build_lock(KEY):
            kill_self()

    killed_in(die)
    with store.build_lock(KEY, lambda _: pytest.fail("nobody builds")):
        pass


def test_keys_do_not_wait_for_each_other(store: Store) -> None:
    refuse = lambda _: pytest.fail("another key")  # noqa: E731
    with store.build_lock(KEY), store.build_lock(key_of("b"), refuse):
        pass


@pytest.mark.parametrize("content", [b"", b"{", b'{"pid":1}'])
def test_a_holder_who_has_not_said_who_it_is_is_unknown(store: Store, content: bytes) -> None:
    told: list[LockHolder] = []
    path = store.path / "locks" / "build" / f"{KEY}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    assert try_lock(descriptor)
    os.write(descriptor, content)
    waiting = threading.Event()

    def on_wait(holder: LockHolder) -> None:
        told.append(holder)
        waiting.set()

    def wait() -> None:
        with store.build_lock(KEY, on_wait):
            pass

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(60)
    os.close(descriptor)
    thread.join()
    assert told == [LockHolder(0, "unknown", "unknown", "unknown")]


def test_a_full_disk_does_not_keep_a_builder_from_its_lock(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with store.build_lock(KEY):
        pass


def test_an_error_in_a_build_is_the_builders_own(store: Store) -> None:
    with pytest.raises(FileNotFoundError), store.build_lock(KEY):
        raise FileNotFoundError


def test_a_build_lock_says_nothing_secret(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/dis", "realize", "--set", "token=canary"])
    with store.build_lock(KEY):
        data = (store.path / "locks" / "build" / f"{KEY}.lock").read_bytes()
    assert json.loads(data)["command"] == "dis realize"
    assert b"canary" not in data


def test_a_waiting_collector_comes_before_later_sharers(store: Store) -> None:
    locks = Locks(Layout(store.path))
    order: list[str] = []
    started = threading.Event()

    def collect() -> None:
        started.set()
        with locks.collecting():
            order.append("collector")

    def share() -> None:
        with locks.sharing():
            order.append("sharer")

    with locks.sharing():
        collector = threading.Thread(target=collect)
        collector.start()
        assert started.wait(60)
        while not _turnstile_is_taken(store.path):
            pass
        sharer = threading.Thread(target=share)
        sharer.start()
    for thread in (collector, sharer):
        thread.join()
    assert order == ["collector", "sharer"]


def _turnstile_is_taken(store: Path) -> bool:
    descriptor = os.open(store / "locks" / "gc.turn", os.O_RDWR | os.O_CREAT)
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


HOLDS: dict[str, tuple[Callable[[Locks], AbstractContextManager[object]], str, str]] = {
    "sharing": (Locks.sharing, "gc.lock", "shared"),
    "collecting": (Locks.collecting, "gc.lock", "exclusive"),
    "placing": (lambda locks: locks.placing(KEY), f"object-{KEY[:2]}.lock", "exclusive"),
    "creating the index": (Locks.creating_index, "index.lock", "exclusive"),
    "emptying the trash": (Locks.emptying_trash, "trash.lock", "exclusive"),
    "keeping the trash": (Locks.keeping_trash, "trash.lock", "exclusive"),
    "building": (lambda locks: locks.building(KEY), f"build/{KEY}.lock", "exclusive"),
}


def holding(room: Path) -> dict[str, str]:
    """Return how each lock file of a store is held now."""
    found = {}
    for path in room.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDWR)
            states = ("shared" if can(descriptor, fcntl.LOCK_SH) else "exclusive", "free")
            found[str(path.relative_to(room))] = states[can(descriptor, fcntl.LOCK_EX)]
            os.close(descriptor)
    return {name: state for name, state in found.items() if state != "free"}


def can(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True


@pytest.mark.parametrize("patience", [None, Patience(seconds=60)], ids=["for ever", "for a time"])
@pytest.mark.parametrize("name", HOLDS)
def test_a_lock_is_held_for_its_block_and_not_longer(
    store: Store, name: str, patience: Patience | None
) -> None:
    take, file, state = HOLDS[name]
    room = store.path / "locks"
    locks = Locks(Layout(store.path), patience)
    with nothing_left_open():
        for failure in (None, KeyboardInterrupt):
            try:
                with take(locks):
                    # The turnstile, which later ones pass as well, is free again.
                    assert holding(room) == {file: state}
                    if failure is not None:
                        raise failure
            except KeyboardInterrupt:
                assert failure is not None
            assert holding(room) == {}


@pytest.mark.parametrize("patience", [None, Patience(seconds=60)], ids=["for ever", "for a time"])
@pytest.mark.parametrize("name", [name for name in HOLDS if name != "emptying the trash"])
def test_a_lock_that_cannot_be_taken_leaves_nothing_open_and_nothing_held(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str, patience: Patience | None
) -> None:
    take, _, _ = HOLDS[name]
    locks = Locks(Layout(store.path), patience)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with nothing_left_open(), monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", fail)
        with pytest.raises(OSError, match="No locks available"), take(locks):
            pytest.fail("there is no lock")
    assert holding(store.path / "locks") == {}


@pytest.mark.parametrize("name", HOLDS)
def test_a_lock_file_that_leads_elsewhere_is_not_followed(store: Store, name: str) -> None:
    take, file, _ = HOLDS[name]
    path, outside = store.path / "locks" / file, store.path.parent / "outside"
    outside.write_bytes(b"precious")
    path.unlink(missing_ok=True)
    path.symlink_to(outside)
    with pytest.raises(OSError, match="symbolic link"), take(Locks(Layout(store.path))):
        pytest.fail("it leads out of the store")
    assert outside.read_bytes() == b"precious"


def test_who_may_empty_the_trash_is_known_at_once(store: Store) -> None:
    locks = Locks(Layout(store.path))
    with locks.emptying_trash() as mine, locks.emptying_trash() as others:
        assert (mine, others) == (True, False)
    with locks.keeping_trash(), locks.emptying_trash() as others:
        assert not others


def test_a_directory_is_locked_for_its_block(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with nothing_left_open():
        with locked_directory(tmp_path):
            assert not can(descriptor, fcntl.LOCK_SH)
        assert can(descriptor, fcntl.LOCK_EX)
    os.close(descriptor)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError), locked_directory(tmp_path / "file"):
        pytest.fail("it is no directory")


def test_only_locks_of_builds_that_nobody_does_are_swept(store: Store) -> None:
    layout = Layout(store.path)
    room = layout.room("locks") / "build"
    (room / "left.lock").touch()
    with store.build_lock(KEY), nothing_left_open():
        sweep_build_locks(layout)
        assert [path.name for path in room.iterdir()] == [f"{KEY}.lock"]


def test_anyone_who_may_write_the_store_may_take_its_locks(store: Store) -> None:
    mask = os.umask(0)
    try:
        with Locks(Layout(store.path)).placing(KEY):
            pass
    finally:
        os.umask(mask)
    path = store.path / "locks" / f"object-{KEY[:2]}.lock"
    assert path.stat().st_mode & 0o7777 == 0o666


def test_who_takes_over_a_build_lock_is_the_only_one_that_has_it(store: Store) -> None:
    # The first opened the file that the builder then took away: it must begin again with another.
    first = threading.Event()
    held: list[dict[str, str]] = []

    def wait() -> None:
        with store.build_lock(KEY, lambda _: first.set()):
            held.append(holding(store.path / "locks"))

    thread = threading.Thread(target=wait)
    with nothing_left_open():
        with store.build_lock(KEY):
            thread.start()
            assert first.wait(60)
        thread.join(60)
        assert held == [{f"build/{KEY}.lock": "exclusive"}]
        assert holding(store.path / "locks") == {}


def test_a_lock_file_that_somebody_deleted_spoils_no_build(store: Store) -> None:
    with store.build_lock(KEY):
        (store.path / "locks" / "build" / f"{KEY}.lock").unlink()
    with store.build_lock(KEY, lambda _: pytest.fail("nobody builds")):
        pass


def test_locks_that_two_sweep_at_once_are_swept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(store.path)
    left = layout.room("locks") / "build" / "left.lock"
    left.touch()

    def after_the_other(descriptor: int) -> bool:
        left.unlink()
        return try_lock(descriptor)

    monkeypatch.setattr("dis_store.locks.try_lock", after_the_other)
    sweep_build_locks(layout)
    assert not left.exists()


def test_who_asked_for_the_holder_in_vain_leaves_nothing_open(store: Store) -> None:
    layout = Layout(store.path)
    before = open_files()
    with Locks(layout).collecting():
        hasty = Locks(layout, Patience(seconds=0.01))
        with pytest.raises(LockTimeoutError, match=f"process {os.getpid()}"), hasty.sharing():
            pytest.fail("the store is being collected")
    # The wait that was given up ends when it gets the lock.
    deadline = time.monotonic() + 60
    while not open_files() <= before:
        assert time.monotonic() < deadline
        time.sleep(0.01)
