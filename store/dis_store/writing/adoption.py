"""Moving somebody's file into the store instead of copying it.

The file gets a second name in the work space, and loses its first one only after the object is registered and what the
store holds was found to be right. So whenever the process is killed, one of the two is whole. Until the first name is
gone no other object may share the inode: whoever owns that name could still write to it.

A file that cannot be moved is copied, compared, and removed then: one on another file system, one with several names,
one of another user.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dis_store.environment import protection_of, reading
from dis_store.errors import BuildError, IntegrityError, InvalidInputError
from dis_store.hashing import hash_content
from dis_store.integrity.inspection import hash_file
from dis_store.platform_linux import is_open_for_writing
from dis_store.work_progress import uncounted
from dis_store.writing.file_writer import WrittenFile
from dis_store.writing.ingestion import open_source, refuse_change
from dis_store.writing.tree_writer import TreeWriter

_NO_SECOND_NAME = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP})
_WRITE_BITS = 0o222


@dataclass(frozen=True)
class Adopted:
    """A file of a new object whose source is to go.

    Attributes:
        source: Where it came from.
        before: What the source was.
        written: What it is in the object.
        moved: Whether it has a second name now; else it was copied.
    """

    source: Path
    before: os.stat_result
    written: WrittenFile
    moved: bool

    @property
    def inode(self) -> tuple[int, int]:
        """Device and inode of the source."""
        return self.before.st_dev, self.before.st_ino


def adopt(
    tree: TreeWriter,
    path: str,
    source: Path,
    *,
    on_bytes: Callable[[int], None] = uncounted,
) -> Adopted:
    """Make `source` a file of a new object, moved where it can be; it is removed by `remove_source` only.

    Raises:
        InvalidInputError: It is no regular file, or cannot be read.
        BuildError: Another program has it open for writing, or it changed while it was read.
        IntegrityError: The disk does not give what is in it.
    """
    with open_source(source) as opened:
        before = os.fstat(opened)
        if _is_ours_alone(before):
            try:
                written = _link(tree, path, source, opened, on_bytes=on_bytes)
            except BaseException:
                restore(source, before)
                raise
            if written is not None:
                return Adopted(source, before, written, moved=True)
            restore(source, before)
    written = tree.ingest(path, source, on_bytes=on_bytes, with_sha256=False)
    if hash_file(source) != written.blake3:
        raise IntegrityError(
            f"the copy of {source} is not what it was made from",
            hint="check the disk and the memory of this machine",
        )
    return Adopted(source, before, written, moved=False)


def may_move(source: Path, store: Path) -> bool:
    """Tell whether a file would be moved into a store, and not copied, as far as it can be seen from outside."""
    status = source.lstat()
    return _is_ours_alone(status) and status.st_dev == store.stat().st_dev


def _is_ours_alone(status: os.stat_result) -> bool:
    # With another name or another owner, others could write to what is the store's.
    return status.st_nlink == 1 and status.st_uid == os.geteuid()


def _link(
    tree: TreeWriter,
    path: str,
    source: Path,
    opened: int,
    *,
    on_bytes: Callable[[int], None],
) -> WrittenFile | None:
    mode = stat.S_IMODE(os.fstat(opened).st_mode)
    # Nobody can begin to write from here on, so that one look for those who have begun is enough.
    _take_write_bits(source, opened, mode)
    before = os.fstat(opened)
    writers = is_open_for_writing(opened)
    if writers is None:
        return None
    if writers:
        raise BuildError(
            f"the file {source} cannot be moved into the store",
            cause="another program has it open for writing",
            hint="stop the program that writes to it, and try again",
        )
    with reading(source):
        content = hash_content(opened, on_bytes=on_bytes, with_sha256=False)
    refuse_change(source, before, os.fstat(opened), content.size)
    inode = (before.st_dev, before.st_ino)
    try:
        return tree.take(
            path, source, content, inode=inode, executable=mode & 0o111 != 0, shared=False
        )
    except OSError as error:
        if error.errno in _NO_SECOND_NAME:
            return None
        raise


def _take_write_bits(source: Path, opened: int, mode: int) -> None:
    try:
        os.fchmod(opened, mode & ~_WRITE_BITS)
    except PermissionError as error:
        said, remedy = protection_of(source) or (None, None)
        instead = "leave out --adopt, so that it is copied"
        raise InvalidInputError(
            f"the file {source} cannot be moved into the store",
            cause=error.strerror if said is None else f"{error.strerror}\nit {said}",
            hint=instead if remedy is None else f"{instead}; or: {remedy}",
        ) from error


def restore(source: Path, before: os.stat_result) -> None:
    """Give a source that stays its mode and times back, unless the store has it: then it must not be writable."""
    with contextlib.suppress(OSError):
        now = source.lstat()
        if (now.st_dev, now.st_ino, now.st_nlink) == (before.st_dev, before.st_ino, 1):
            source.chmod(stat.S_IMODE(before.st_mode))
            os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns), follow_symlinks=False)


def check_stored(adopted: Adopted, stored: Path) -> None:
    """Refuse to give up a source while the file of the object is not right.

    Raises:
        IntegrityError: The object was there before, and is damaged.
    """
    status = stored.lstat()
    if (status.st_dev, status.st_ino) == adopted.inode:
        return
    if hash_file(stored) != adopted.written.blake3:
        raise IntegrityError(
            f"the file {stored} is damaged",
            cause=f"its content is not that of {adopted.source}, which stays where it is",
            hint="find what else is damaged: dis store verify --all",
        )


def remove_source(adopted: Adopted) -> None:
    """Remove the first name of a file that the store has now.

    Raises:
        BuildError: It cannot be removed, or something else is there.
    """
    source = adopted.source
    try:
        now = source.lstat()
        changed = not adopted.moved and now.st_mtime_ns != adopted.before.st_mtime_ns
        if changed or (now.st_dev, now.st_ino) != adopted.inode:
            raise BuildError(
                f"{source} is in the store, and was not removed", cause="it has changed meanwhile"
            )
        source.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        raise BuildError(
            f"{source} is in the store, and could not be removed", cause=error.strerror
        ) from error
