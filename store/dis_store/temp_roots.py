"""Temporary roots: what a living process needs, kept from garbage collection until the process ends.

Each process has one file `temproots/<boot id>-<random>`, one name (a digest) a line, held by `flock`: when the process
dies the kernel frees the lock, and the file counts for nothing. No file is named by a process id, because containers
that share a store have their own.
"""

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from dis_store.digest import Digest
from dis_store.errors import InvalidInputError
from dis_store.layout import Layout
from dis_store.locks import Locks, try_lock
from dis_store.platform_linux import boot_id, write_all

_NEW_FILE = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class TempRoots:
    """The temporary roots of this process in one store."""

    def __init__(self, layout: Layout, locks: Locks) -> None:
        self._room = layout.room("temproots")
        self._locks = locks
        self._lock = threading.Lock()
        self._file: tuple[Path, int] | None = None
        self._held: set[Digest] = set()

    def add(self, digests: Iterable[Digest]) -> None:
        """Keep the things that bear these names from now until the process ends or `close`.

        Whoever asks for validity afterwards can trust the answer: a collection that began before has
        ended, and one that begins later reads this file.
        """
        with self._lock:
            new = [digest for digest in dict.fromkeys(digests) if digest not in self._held]
            if not new:
                return
            with self._locks.sharing():
                self._append(new)
            self._held.update(new)

    def close(self) -> None:
        """Give up all temporary roots."""
        with self._lock:
            if self._file is not None:
                path, descriptor = self._file
                path.unlink(missing_ok=True)
                os.close(descriptor)
            self._file = None
            self._held.clear()

    def _append(self, digests: list[Digest]) -> None:
        if self._file is None:
            self._file = self._create()
        # The newline comes first, so that half a line, left by a full disk, cannot spoil the next one.
        write_all(self._file[1], "".join(f"\n{digest}" for digest in digests).encode())

    def _create(self) -> tuple[Path, int]:
        while True:
            path = self._room / f"{boot_id()}-{os.urandom(16).hex()}"
            descriptor = os.open(path, _NEW_FILE, 0o644)
            # Somebody who sweeps what dead processes left may have come between the two.
            if try_lock(descriptor) and os.fstat(descriptor).st_nlink > 0:
                return path, descriptor
            os.close(descriptor)


def live_temp_roots(layout: Layout, *, sweep: bool) -> set[Digest]:
    """Return the temporary roots of all living processes. The caller holds the collection lock.

    Args:
        layout: Where the store is.
        sweep: Whether to remove the files of dead processes.
    """
    found: set[Digest] = set()
    for path in layout.room("temproots").iterdir():
        # A process that ends takes its file with it, perhaps just now.
        with contextlib.suppress(FileNotFoundError), _opened(path) as descriptor:
            if not try_lock(descriptor):
                found.update(_read(descriptor))
            elif sweep:
                path.unlink()
    return found


def _read(descriptor: int) -> Iterator[Digest]:
    with open(descriptor, encoding="ascii", errors="replace", closefd=False) as lines:
        for line in lines:
            # A writer that met a full disk may have left half a line; it was told, and relies on nothing.
            with contextlib.suppress(InvalidInputError):
                yield Digest(line.rstrip("\n"))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
