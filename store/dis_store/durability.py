"""Making what was written survive a power cut.

A failed fsync is final: the kernel drops the pages that it could not write and reports success the next time. So every
error here must make the caller drop the file or the tree, and nothing here is ever tried twice.
"""

import errno
import os
import stat
from pathlib import Path

from dis_store.platform_linux import located, write_all

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# Directories whose names this process knows to be on the disk.
_LASTING: set[tuple[str, int, int]] = set()


def fsync_file(path: Path) -> None:
    """Wait until the content of a regular file is on the disk."""
    _fsync(path, os.O_RDONLY | os.O_NOFOLLOW)


def fsync_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk."""
    _fsync(path, _DIRECTORY)


def _fsync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def ensure_directory(path: Path) -> os.stat_result:
    """Make a directory below an existing one unless it is there; return its status.

    Raises:
        NotADirectoryError: Something else is there. A symlink is something else: it would lead out of the store.
    """
    # Looked for first: nearly always it is there, and a call that fails costs more than one that does not.
    try:
        status = path.lstat()
    except FileNotFoundError:
        path.mkdir(exist_ok=True)
        status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    return status


def make_directory(path: Path, *, lasting: bool = False) -> None:
    """Make a directory below an existing one unless it is there; durable when it returns.

    Args:
        path: The directory.
        lasting: Whether nothing ever removes it, so that waiting for it once in a process is enough.

    Raises:
        NotADirectoryError: As `ensure_directory`.
    """
    status = ensure_directory(path)
    known = (str(path), status.st_dev, status.st_ino)
    if lasting and known in _LASTING:
        return
    # Also when it was there: whoever made it may have died before this line.
    fsync_directory(path.parent)
    if lasting:
        _LASTING.add(known)


def write_new(path: Path, data: bytes, *, mode: int = 0o444, wait: bool = True) -> None:
    """Write a new file and wait for its content.

    Args:
        path: The file.
        data: The whole content.
        mode: The permissions of the file.
        wait: False where the caller waits for many files later, with `fsync_file`.

    Raises:
        FileExistsError: There is something at `path`.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        write_all(descriptor, data)
        os.fchmod(descriptor, mode)
        if wait:
            os.fsync(descriptor)
    except BaseException:
        path.unlink()
        raise
    finally:
        os.close(descriptor)


def write_durably(temporary: Path, target: Path, data: bytes, *, mode: int = 0o444) -> None:
    """Put `data` at `target` so that a reader, or a crash, sees the old content or the new one.

    Args:
        temporary: A name on the same device that is the caller's alone.
        target: Replaced if it exists.
        data: The whole content.
        mode: The permissions of the file.
    """
    temporary.unlink(missing_ok=True)
    write_new(temporary, data, mode=mode)
    try:
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        # The temporary name means nothing to whoever reads the message.
        raise OSError(error.errno, error.strerror, str(target)) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_directory(target.parent)


def remove_tree(path: Path) -> None:
    """Remove a file or a whole tree, read-only directories included, without ever following a symlink.

    Two processes may remove the same tree: what is gone already is no error.
    """
    try:
        parent = os.open(path.parent, _DIRECTORY)
    except FileNotFoundError:
        return
    try:
        _remove(path.name, parent)
    finally:
        os.close(parent)


def _remove(name: str, parent: int) -> None:
    try:
        if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            _remove_directory(name, parent)
        else:
            os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise located(error, name, parent) from error


def _remove_directory(name: str, parent: int) -> None:
    os.chmod(name, 0o700, dir_fd=parent)
    descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        for inner in os.listdir(descriptor):  # noqa: PTH208 - a descriptor
            _remove(inner, descriptor)
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=parent)
