"""The room for what is deleted: things move here by a rename, and their blocks are freed later.

A collection moves what it deletes into *bins*, one for each first digit of a digest, so that several threads can empty
the trash without waiting for each other's directory.
"""

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from dis_store.platform_linux import located

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_BIN = "bin-"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# More than there are processors: some of them always wait for the disk.
_WORKERS = 4
# How many trees a thread removes before it tells of them.
_TOLD_AT_ONCE = 100


class TrashBins:
    """Where one collection moves what it deletes. A context manager; what is in the bins stays there.

    Attributes:
        count: How many things were moved.
    """

    def __init__(self, trash: Path) -> None:
        self.count = 0
        self._trash = trash
        self._tag = os.urandom(8).hex()
        self._open: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def take(self, name: str, directory: int) -> bool:
        """Move a file or a tree, read-only as it is, out of an open directory; neither is synchronised.

        Returns:
            Whether it was there.
        """
        target = self._bin(name[:1])
        new = f"{self._tag}-{self.count:x}"
        try:
            os.rename(name, new, src_dir_fd=directory, dst_dir_fd=target)
        except FileNotFoundError:
            return False
        except PermissionError as error:
            # Nobody but root may move a directory that cannot be written.
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode) or status.st_mode & stat.S_IWUSR:
                raise located(error, name, directory) from error
            try:
                os.chmod(name, stat.S_IRWXU, dir_fd=directory)
                os.rename(name, new, src_dir_fd=directory, dst_dir_fd=target)
            except OSError as refused:
                raise located(refused, name, directory) from refused
        except OSError as error:
            raise located(error, name, directory) from error
        self.count += 1
        return True

    def _bin(self, digit: str) -> int:
        if digit not in self._open:
            self._open[digit] = self._make_bin(digit)
        return self._open[digit]

    def _make_bin(self, digit: str) -> int:
        path = self._trash / f"{_BIN}{self._tag}-{digit}"
        try:
            path.mkdir()
        except OSError as error:
            if error.errno not in _FULL:
                raise
            # A rename needs no new inode, so a disk without any can be freed all the same.
            path = self._trash
        return os.open(path, _DIRECTORY)


def empty(trash: Path, on_removed: Callable[[int], None] | None = None) -> int:
    """Delete what lies in the trash; the caller holds its lock.

    Args:
        trash: The room.
        on_removed: Called with how many more things are gone, from several threads.

    Returns:
        The bytes of the files whose last names went with trees; single files, which are manifests, are not counted.
    """
    removal = _Removal(on_removed or (lambda _count: None))
    parent = os.open(trash, _DIRECTORY)
    try:
        names = sorted(os.listdir(parent))  # noqa: PTH208 - a descriptor
        with ThreadPoolExecutor(_WORKERS) as pool:
            return sum(pool.map(lambda name: removal.remove(name, parent), names))
    finally:
        os.close(parent)


class _Removal:
    def __init__(self, on_removed: Callable[[int], None]) -> None:
        self._on_removed = on_removed
        # Whoever takes one of several names of an inode looks and deletes in one step, so that the last is noticed.
        self._counting = threading.Lock()

    def remove(self, name: str, parent: int) -> int:
        """Remove a thing from the trash, or everything from a bin, then the bin; return what that freed."""
        if not name.startswith(_BIN):
            return self._entry(name, parent)
        freed = 0
        with contextlib.suppress(FileNotFoundError):
            with _opened(name, parent) as descriptor:
                names = os.listdir(descriptor)  # noqa: PTH208 - a descriptor
                for start in range(0, len(names), _TOLD_AT_ONCE):
                    some = names[start : start + _TOLD_AT_ONCE]
                    freed += sum(self._entry(each, descriptor) for each in some)
                    self._on_removed(len(some))
            os.rmdir(name, dir_fd=parent)
        return freed

    def _entry(self, name: str, parent: int) -> int:
        freed = 0
        # Two processes may remove the same tree: what is gone already is no error.
        try:
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                freed = self._inside(name, parent)
                os.rmdir(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise located(error, name, parent) from error
        return freed

    def _inside(self, name: str, parent: int) -> int:
        """Remove all that is in a directory of a tree; return what that freed."""
        with _opened(name, parent) as directory:
            return self._entries(directory)

    def _entries(self, directory: int) -> int:
        with os.scandir(directory) as found:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        freed = 0
        for name, is_directory in entries:
            try:
                if is_directory:
                    freed += self._inside(name, directory)
                    _delete(os.rmdir, name, directory)
                else:
                    freed += self._file(name, directory)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise located(error, name, directory) from error
        return freed

    def _file(self, name: str, parent: int) -> int:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink == 1:
            _delete(os.unlink, name, parent)
            return status.st_size if stat.S_ISREG(status.st_mode) else 0
        with self._counting:
            last = os.stat(name, dir_fd=parent, follow_symlinks=False).st_nlink == 1
            _delete(os.unlink, name, parent)
        return status.st_size if last else 0


def _delete(delete: Callable[..., None], name: str, directory: int) -> None:
    """Delete out of a directory of a tree, which is made writable where that is needed."""
    try:
        delete(name, dir_fd=directory)
    except PermissionError:
        # Root may delete from one that is read-only, unless its powers were taken; others may not.
        os.fchmod(directory, 0o700)
        delete(name, dir_fd=directory)


@contextlib.contextmanager
def _opened(name: str, parent: int) -> Iterator[int]:
    try:
        descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=parent)
        descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
