"""The locks of a store: advisory `flock`s, which the kernel frees when their process dies.

- `locks/gc.lock`: shared while something is made visible or protected, exclusive while garbage is found and made
  invisible, or the index rebuilt; then its content says who. Never held through a download or a build.
- `locks/object-<ab>.lock`: exclusive while an object whose digest begins with `ab` is put in its place.
- `locks/build/<key>.lock`: exclusive while one process builds a key; its content says who.

Each acquisition opens the file anew, so that threads of one process exclude each other too.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dis_store.digest import Digest
from dis_store.layout import Layout

if TYPE_CHECKING:
    from dis_store.lock_holder import LockHolder
    from dis_store.patience import Patience


class Locks:
    """The locks of the store that `layout` describes."""

    def __init__(self, layout: Layout, patience: "Patience | None" = None) -> None:
        self._room = layout.room("locks")
        # Taken several times in every build.
        self._collections, self._turnstile = self._room / "gc.lock", self._room / "gc.turn"
        self.patience = patience

    @contextlib.contextmanager
    def sharing(self) -> Iterator[None]:
        """Hold off garbage collection for a moment."""
        # A waiting collector holds the turnstile: without it, an endless stream of sharers would starve it.
        with self._taken(self._turnstile, fcntl.LOCK_SH):
            shared = self._take(self._collections, fcntl.LOCK_SH)
        try:
            yield
        finally:
            os.close(shared)

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Be the only process that makes visible, protects or deletes anything."""
        from dis_store import lock_holder

        with self._taken(self._turnstile, fcntl.LOCK_EX):
            exclusive = self._take(self._collections, fcntl.LOCK_EX)
        try:
            lock_holder.write(exclusive)
            yield
        finally:
            lock_holder.clear(exclusive)
            os.close(exclusive)

    @contextlib.contextmanager
    def _taken(self, path: Path, operation: int) -> Iterator[None]:
        descriptor = self._take(path, operation)
        try:
            yield
        finally:
            os.close(descriptor)

    def _take(self, path: Path, operation: int) -> int:
        """Open and lock a file that a collection may hold for long, with the patience that there is."""
        if self.patience is None:
            return _acquire(path, operation)
        from dis_store.patience import acquire

        descriptor = _open(path)
        try:
            acquire(descriptor, operation, self.patience, self._collector)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _collector(self) -> "LockHolder":
        from dis_store import lock_holder

        descriptor = _open(self._collections)
        try:
            return lock_holder.read_living(descriptor)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def placing(self, digest: Digest) -> Iterator[None]:
        """Be the only one that puts objects or records whose names begin like `digest` into place."""
        with _flocked(self._room / f"object-{digest[:2]}.lock", fcntl.LOCK_EX):
            yield

    @contextlib.contextmanager
    def creating_index(self) -> Iterator[None]:
        """Be the only one that creates the index."""
        with _flocked(self._room / "index.lock", fcntl.LOCK_EX):
            yield

    @contextlib.contextmanager
    def emptying_trash(self) -> Iterator[bool]:
        """Yield whether this process is the one that may empty the trash; never waits."""
        with _tried(self._room / "trash.lock") as held:
            yield held

    @contextlib.contextmanager
    def keeping_trash(self) -> Iterator[None]:
        """Be the one who empties the trash, after waiting for another one if there is one."""
        with _flocked(self._room / "trash.lock", fcntl.LOCK_EX):
            yield

    @contextlib.contextmanager
    def building(
        self, key: Digest, on_wait: "Callable[[LockHolder], None] | None" = None
    ) -> Iterator[None]:
        """Be the only builder of `key`, after waiting for another one if there is one.

        Args:
            key: What is built.
            on_wait: Called once before waiting, with who holds the lock.
        """
        from dis_store import lock_holder

        path = self._room / "build" / f"{key}.lock"
        descriptor = _acquire_named(path, on_wait)
        try:
            lock_holder.write(descriptor)
            yield
        finally:
            # Unlinked while it is held: a process that opened it before finds the name gone and starts over.
            path.unlink(missing_ok=True)
            os.close(descriptor)


def _acquire_named(path: Path, on_wait: "Callable[[LockHolder], None] | None") -> int:
    from dis_store import lock_holder

    while True:
        descriptor = _open(path)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if on_wait is not None:
                    on_wait(lock_holder.read(descriptor))
                    on_wait = None
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _still_named(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _still_named(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def locked_directory(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a directory itself, for the time before it has files to lock."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Take an exclusive lock on an open file or directory if nobody holds one."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sweep_build_locks(layout: Layout) -> None:
    """Remove the lock files of builds that nobody does any more."""
    for path in layout.room("locks").joinpath("build").iterdir():
        with _tried(path) as held:
            if held:
                path.unlink(missing_ok=True)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)


def _acquire(path: Path, operation: int) -> int:
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, operation)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def _flocked(path: Path, operation: int) -> Iterator[None]:
    descriptor = _acquire(path, operation)
    try:
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _tried(path: Path) -> Iterator[bool]:
    descriptor = _open(path)
    try:
        yield try_lock(descriptor)
    finally:
        os.close(descriptor)
