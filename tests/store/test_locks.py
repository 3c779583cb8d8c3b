import json
import os
import threading
from pathlib import Path

import pytest

from builds import key_of
from dis_store import LockHolder, Store
from dis_store.layout import Layout
from dis_store.locks import Locks, try_lock
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
