"""Taking a copy of somebody's file: read once, the source left alone."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from dis_store.environment import reading
from dis_store.errors import BuildError, InvalidInputError
from dis_store.hashing import CHUNK_BYTES, Content, ContentHasher, hash_content
from dis_store.lane import Lane
from dis_store.platform_linux import clone_file, start_writeback, write_all
from dis_store.work_progress import uncounted

Way = Literal["reflink", "copy", "move"]
"""How a file came in: its blocks shared, copied, or moved without a copy."""

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
    with_sha256: bool = True,
) -> tuple[Content, Way]:
    """Fill the new file `target` with the content of `source`; return what was stored, and how.

    The blocks are shared where the file system can; then what is hashed is read from `target`. Elsewhere each piece is
    read once, written and hashed: `copy_file_range` copies through the same memory where blocks are not shared, takes
    longer for it than a read and a write, and leaves the bytes to be read again for their digests.
    `on_bytes` is told of each piece.

    Raises:
        IntegrityError: The disk does not give what is in `source`; the message names `path`.
    """
    if clone_file(source, target):
        return hash_content(target, on_bytes=on_bytes, with_sha256=with_sha256), "reflink"
    hasher = ContentHasher(with_sha256=with_sha256)
    # A thread of its own, which mostly waits: a disk whose queue is full would keep the hashes from going on.
    writeback = Lane[int](lambda start: start_writeback(target, start, WRITEBACK_BYTES))
    position = 0
    try:
        while piece := _read(source, path):
            write_all(target, piece)
            hasher.update(piece)
            position += len(piece)
            on_bytes(len(piece))
            if position % WRITEBACK_BYTES == 0:
                writeback.take(position - WRITEBACK_BYTES, threaded=True)
        content = hasher.finish()
        writeback.finish()
    except BaseException:
        hasher.abandon()
        writeback.abandon()
        raise
    return content, "copy"


def _read(source: int, path: Path) -> bytes:
    with reading(path):
        return os.read(source, CHUNK_BYTES)


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
