"""Files on their way into the store from elsewhere, which outlive the process that fetches them.

Each has a directory in `downloads/` of its own, which only its user can enter, with the bytes so far in `part`, what
is known of them in `journal`, and in `positions` how far those came that were at it when a process was killed. It is
held by a lock on `lock`, whose time says when it was last used; a collection removes what nobody has gone on with for a
week. Nothing in here is trusted: what leaves it is hashed first.
"""

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dis_store import lock_holder
from dis_store.digest import Digest
from dis_store.durability import remove_tree
from dis_store.environment import reported
from dis_store.errors import UnfitEnvironmentError
from dis_store.foundation import Foundation
from dis_store.layout import Layout
from dis_store.locks import try_lock
from dis_store.platform_linux import write_all

ROOM = "downloads"
SECONDS_KEPT = 7 * 86400
_PART, _JOURNAL, _POSITIONS, _LOCK = "part", "journal", "positions", "lock"
_MODE = 0o600
_WRITE_BITS = 0o222
_LONGEST_JOURNAL = 16 << 20
_SECONDS_BETWEEN_TRIES = 0.1
_BLOCK_BYTES = 512
_NOT_EMULATED = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})


@dataclass(frozen=True)
class Download:
    """An unfinished file that this process alone works on, in a directory of its own."""

    foundation: Foundation
    key: Digest
    directory: Path

    @property
    def part(self) -> Path:
        """The file with the bytes so far."""
        return self.directory / _PART

    def open(self) -> tuple[int, bool]:
        """Open the bytes so far; return the descriptor, and whether they may be written to.

        What has another name by now is part of an object, and can only be read. Where there are no bytes, or somebody
        else could write to them, an empty file is made.
        """
        with reported(self.foundation.top):
            for flags in (os.O_RDWR, os.O_RDONLY):
                with contextlib.suppress(OSError):
                    descriptor = os.open(self.part, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
                    status = os.fstat(descriptor)
                    if _is_private(status):
                        return descriptor, status.st_nlink == 1
                    os.close(descriptor)
            return self._anew(), True

    def start_over(self) -> int:
        """Give up the bytes so far; open an empty file."""
        with reported(self.foundation.top):
            return self._anew()

    def _anew(self) -> int:
        # Never emptied in its place: an object may have it under another name.
        for name in (_JOURNAL, _POSITIONS, _PART):
            (self.directory / name).unlink(missing_ok=True)
        return os.open(self.part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _MODE)

    def open_positions(self) -> int:
        """Open the file that is overwritten while bytes come; return the descriptor."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        with reported(self.foundation.top):
            return os.open(self.directory / _POSITIONS, flags, _MODE)

    def reserve(self, descriptor: int, size: int) -> None:
        """Give the file its length, and blocks for all of it where the file system can.

        Raises:
            DiskFullError: There is no room for them.
        """
        from dis_store.writing.room import check_room

        present = os.fstat(descriptor).st_blocks * _BLOCK_BYTES
        check_room(self.foundation, max(0, size - present))
        with reported(self.foundation.top):
            os.ftruncate(descriptor, size)
            if size:
                try:
                    os.posix_fallocate(descriptor, 0, size)
                except OSError as error:
                    if error.errno not in _NOT_EMULATED:
                        raise

    def journal(self) -> bytes:
        """Return what was noted last; nothing where nothing was."""
        try:
            descriptor = os.open(self.directory / _JOURNAL, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            return b""
        try:
            return os.read(descriptor, _LONGEST_JOURNAL)
        finally:
            os.close(descriptor)

    def note(self, data: bytes) -> None:
        """Note what is known of the bytes, without waiting: after a power cut an older note may be there, or none."""
        new = self.directory / f"{_JOURNAL}.new"
        with reported(self.foundation.top):
            new.unlink(missing_ok=True)
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _MODE)
            try:
                write_all(descriptor, data)
            finally:
                os.close(descriptor)
            new.replace(self.directory / _JOURNAL)

    def remove(self) -> None:
        """Remove all of it; the lock goes on to hold off nobody."""
        with reported(self.foundation.top):
            remove_tree(self.directory)


@contextlib.contextmanager
def downloading(
    foundation: Foundation, key: Digest, check_interrupted: Callable[[], None]
) -> Iterator[Download]:
    """Be the only one that fetches a file, after waiting for another one if there is one.

    Who holds one download must not wait for another.

    Args:
        foundation: The store.
        key: What is fetched, and from where.
        check_interrupted: Called while waiting; raises when the user asked to stop.
    """
    directory = _directory(foundation.layout, key)
    with reported(foundation.top):
        descriptor = _hold(directory, check_interrupted)
    try:
        lock_holder.write(descriptor)
        os.utime(descriptor)
        yield Download(foundation, key, directory)
    finally:
        os.close(descriptor)


def finish(foundation: Foundation, key: Digest) -> None:
    """Remove a download whose file is in an object now, unless somebody is at it."""
    _remove_if_free(_directory(foundation.layout, key), lambda: True)


def sweep_downloads(layout: Layout) -> int:
    """Remove what nobody has gone on with for a week; return the bytes that were freed."""
    return sum(
        size
        for directory, size in _stale(layout)
        if _remove_if_free(directory, partial(_is_stale, directory))
    )


def stale_bytes(layout: Layout) -> int:
    """Return the bytes that `sweep_downloads` would free."""
    return sum(size for _, size in _stale(layout))


def unfinished_bytes(layout: Layout) -> int:
    """Return the bytes of all downloads that are not finished: they need not find room again."""
    return sum(map(_size, _directories(layout)))


def _directory(layout: Layout, key: Digest) -> Path:
    # What others could write would not be ours while it is hashed, so every user has their own.
    return layout.room(ROOM) / f"{key}-{os.geteuid()}"


def _directories(layout: Layout) -> list[Path]:
    try:
        return sorted(layout.room(ROOM).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _hold(directory: Path, check_interrupted: Callable[[], None]) -> int:
    while True:
        directory.parent.mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        # Whoever has finished with it may remove it at any time.
        with contextlib.suppress(FileNotFoundError):
            status = directory.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                raise UnfitEnvironmentError(
                    f"{directory} cannot hold a download", cause="it is no directory of this user"
                )
            directory.chmod(0o700)
            descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, _MODE)
            try:
                _wait(descriptor, check_interrupted)
                # Whoever had it may have removed the directory.
                if os.fstat(descriptor).st_nlink > 0:
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)


def _wait(descriptor: int, check_interrupted: Callable[[], None]) -> None:
    while not try_lock(descriptor):
        check_interrupted()
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _is_private(status: os.stat_result) -> bool:
    """Tell whether nobody else can write to a file, nor this process by way of an object that has it."""
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        return False
    mode = stat.S_IMODE(status.st_mode)
    return mode == _MODE or (mode & _WRITE_BITS == 0 and status.st_nlink > 1)


def _stale(layout: Layout) -> Iterator[tuple[Path, int]]:
    for directory in _directories(layout):
        if _is_stale(directory):
            yield directory, _size(directory)


def _is_stale(directory: Path) -> bool:
    times = []
    for path in (directory / _LOCK, directory):
        with contextlib.suppress(OSError):
            times.append(path.lstat().st_mtime)
    return bool(times) and max(times) < time.time() - SECONDS_KEPT


def _size(directory: Path) -> int:
    try:
        status = (directory / _PART).lstat()
    except OSError:
        return 0
    # What an object has under another name stays.
    return status.st_blocks * _BLOCK_BYTES if status.st_nlink == 1 else 0


def _remove_if_free(directory: Path, still: Callable[[], bool]) -> bool:
    """Remove a download unless somebody holds it; what another user keeps to themselves stays."""
    try:
        descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, _MODE)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not still():
            return False
        remove_tree(directory)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
