"""Taking a copy of somebody's file: read once, hashed from what was stored, the source left alone."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from dis_store.environment import reading
from dis_store.errors import BuildError, InvalidInputError
from dis_store.hashing import CHUNK_BYTES, Content, ContentHasher, always, hash_content, uncounted
from dis_store.platform_linux import clone_file, copy_range, start_writeback, write_all

Way = Literal["reflink", "copy_file_range", "copy", "move"]
"""How a file came in: its blocks shared, copied by the kernel, copied by hand, or moved without a copy."""

# Write-back begins after each of these, so that the disk works while we hash.
WRITEBACK_BYTES = 32 << 20


@contextlib.contextmanager
def open_source(path: Path) -> Iterator[int]:
    """Open a regular file for reading.

    Raises:
        InvalidInputError: It is not there, not readable, a symlink, or no regular file.
    """
    try:
        # Non-blocking: opening a named pipe must not wait for somebody to write to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        symlink = error.errno == errno.ELOOP
        raise InvalidInputError(
            f"the file {path} cannot be taken into the store",
            cause="it is a symlink" if symlink else error.strerror,
            hint="name the file that it leads to" if symlink else None,
        ) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InvalidInputError(
                f"the file {path} cannot be taken into the store", cause="it is no regular file"
            )
        yield descriptor
    finally:
        os.close(descriptor)


def copy_and_hash(
    source: int,
    target: int,
    *,
    path: Path,
    on_bytes: Callable[[int], None] = uncounted,
    spare: Callable[[], bool] = always,
) -> tuple[Content, Way]:
    """Fill the new file `target` with the content of `source`; return what was stored, and how.

    The blocks are shared where the file system can, copied by the kernel where it can, and copied by
    hand elsewhere. What is hashed is always read from `target`, and `on_bytes` is told of each piece.

    Raises:
        IntegrityError: The disk does not give what is in `source`; the message names `path`.
    """
    if clone_file(source, target):
        return hash_content(target, on_bytes=on_bytes, spare=spare), "reflink"
    copier = _Copier(source, target, path)
    hasher = ContentHasher(spare=spare)
    position = 0
    try:
        while count := copier.step():
            hasher.update(os.pread(target, count, position))
            position += count
            on_bytes(count)
            if position % WRITEBACK_BYTES == 0:
                start_writeback(target, position - WRITEBACK_BYTES, WRITEBACK_BYTES)
    except BaseException:
        hasher.abandon()
        raise
    return hasher.finish(), copier.way


class _Copier:
    """Copies a file piece by piece, by the kernel as long as it can."""

    def __init__(self, source: int, target: int, path: Path) -> None:
        self._source = source
        self._target = target
        self._path = path
        self.way: Way = "copy_file_range"

    def step(self) -> int:
        """Copy a piece; return its bytes, 0 at the end."""
        if self.way == "copy_file_range":
            if copied := self._by_the_kernel():
                return copied
            # The end; or a file system of which the kernel copies nothing.
            data = self._read()
            self.way = "copy" if data else self.way
        else:
            data = self._read()
        write_all(self._target, data)
        return len(data)

    def _by_the_kernel(self) -> int | None:
        try:
            return copy_range(self._source, self._target, CHUNK_BYTES)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            # The kernel does not say which of the two files it was; a read and a write do.
            return None

    def _read(self) -> bytes:
        with reading(self._path):
            return os.read(self._source, CHUNK_BYTES)


def refuse_change(path: Path, before: os.stat_result, after: os.stat_result, size: int) -> None:
    """Refuse a source that was written to while it was read.

    Raises:
        BuildError: Size, times or inode differ, or not `size` bytes were read.
    """
    if _stamp(before) != _stamp(after) or size != after.st_size:
        raise BuildError(
            f"the file {path} changed while it was read",
            hint="stop the program that writes to it, and try again",
        )


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
