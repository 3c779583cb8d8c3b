"""Waiting for the store: visible, with an end where one is wanted, and never by guessing."""

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dis_store import LockHolder, Root, Store
from dis_store.errors import LockTimeoutError
from dis_store.lock_holder import UNKNOWN
from dis_store.patience import Patience, acquire
from processes import kill_self, killed_in
from run_shelf import add_object


@contextlib.contextmanager
def collecting(store: Store) -> Iterator[None]:
    """Hold the lock that a collection holds, from another opening of the store."""
    with Store.open(store.path) as other, other._foundation.locks.collecting():
        yield


def test_a_wait_that_is_too_long_ends_and_names_who_holds_the_lock(store: Store) -> None:
    digest = add_object(store, {"file": b"1"})
    with Store.open(store.path, patience=Patience(seconds=0.05)) as hasty:
        with collecting(store), pytest.raises(LockTimeoutError) as refused:
            hasty.set_root("mine", Root(digest))
        assert f"process {os.getpid()}" in str(refused.value.cause)
        assert "--wait" in str(refused.value.hint)
        assert "delete" not in str(refused.value.hint)
        hasty.set_root("mine", Root(digest))
    assert "mine" in store.roots()


def test_two_collections_wait_for_each_other_with_patience(store: Store) -> None:
    with Store.open(store.path, patience=Patience(seconds=0.05)) as hasty:
        with collecting(store), pytest.raises(LockTimeoutError):
            hasty.collect_garbage()
        hasty.collect_garbage()


def test_who_waits_for_long_is_told_once_and_goes_on(store: Store) -> None:
    digest = add_object(store, {"file": b"1"})
    told: list[LockHolder] = []
    known = threading.Event()

    def tell(holder: LockHolder) -> None:
        told.append(holder)
        known.set()

    with Store.open(store.path, patience=Patience(tell=tell)) as patient:
        thread = threading.Thread(target=lambda: patient.set_root("mine", Root(digest)))
        with collecting(store):
            thread.start()
            assert known.wait(60)
        thread.join(60)
    assert [holder.pid for holder in told] == [os.getpid()]
    assert "mine" in store.roots()


def test_a_lock_that_is_free_is_taken_without_a_word(store: Store) -> None:
    patience = Patience(seconds=0.0, tell=lambda _: pytest.fail("nobody holds it"))
    with Store.open(store.path, patience=patience) as hasty:
        add_object(hasty, {"file": b"1"})
        hasty.collect_garbage()


def test_a_wait_that_was_given_up_leaves_the_lock_to_others(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holding, waiting = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    fcntl.flock(holding, fcntl.LOCK_EX)
    with pytest.raises(LockTimeoutError):
        acquire(waiting, fcntl.LOCK_EX, Patience(seconds=0.01), lambda: UNKNOWN)
    os.close(waiting)
    os.close(holding)
    # The wait that nobody wants any more gets the lock, and lets go of it.
    free = os.open(path, os.O_RDWR)
    deadline = time.monotonic() + 60
    while True:
        try:
            fcntl.flock(free, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    os.close(free)


def test_a_collector_that_died_is_not_named(store: Store) -> None:
    def die() -> None:
        with Store.open(store.path)._foundation.locks.collecting():
            kill_self()

    killed_in(die)
    lock = store.path / "locks" / "gc.lock"
    assert lock.read_bytes()
    holding = os.open(lock, os.O_RDWR)
    fcntl.flock(holding, fcntl.LOCK_SH)
    with Store.open(store.path, patience=Patience(seconds=0.01)) as hasty:
        with pytest.raises(LockTimeoutError, match="locked by another command: another process"):
            hasty.collect_garbage()
        os.close(holding)
        hasty.collect_garbage()


def test_who_collected_is_named_no_longer_than_it_does(store: Store) -> None:
    lock = store.path / "locks" / "gc.lock"
    with collecting(store):
        assert str(os.getpid()).encode() in lock.read_bytes()
    assert lock.read_bytes() == b""
