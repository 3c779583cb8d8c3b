"""Creating entries of a tree below an open directory, without ever following a symlink."""

import contextlib
import os
from collections.abc import Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# Readable too: what was written is read back while it is hashed.
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def create_file(top: int, path: str) -> int:
    """Create a file that is not there, with its directories; return its descriptor."""
    with _parent(top, path) as (directory, name):
        descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=directory)
        os.fchmod(descriptor, 0o600)
        return descriptor


def create_link(top: int, path: str, target: str) -> None:
    """Create a symlink that is not there, with its directories."""
    with _parent(top, path) as (directory, name):
        os.symlink(target, name, dir_fd=directory)


def create_hard_link(top: int, path: str, source: str) -> tuple[int, int]:
    """Give the file at `source` a second name that is not there, with its directories; return device and inode."""
    with _parent(top, path) as (directory, name):
        os.link(source, name, dst_dir_fd=directory, follow_symlinks=False)
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        return status.st_dev, status.st_ino


def remove_entry(top: int, path: str) -> None:
    """Remove a file or symlink; its directories stay."""
    with _parent(top, path) as (directory, name):
        os.unlink(name, dir_fd=directory)


@contextlib.contextmanager
def _parent(top: int, path: str) -> Iterator[tuple[int, str]]:
    *directories, name = path.split("/")
    current = os.dup(top)
    try:
        for directory in directories:
            inner = _enter(current, directory)
            os.close(current)
            current = inner
        yield current, name
    finally:
        os.close(current)


def _enter(parent: int, name: str) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=parent)
            # Not what umask left of it: the owner must be able to work here.
            os.chmod(name, 0o755, dir_fd=parent)  # noqa: S103 - the work space around it is 0700
        return os.open(name, _DIRECTORY, dir_fd=parent)
