"""Private directories and files under `tmp/` for things that are not finished.

Each is held by a lock on itself for as long as its process lives. What lies in `tmp/` with its lock free
was left by a dead process, and the next start removes it, together with what that process had put in place and not
yet entered into the index.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dis_store.digest import Digest
from dis_store.durability import remove_tree
from dis_store.errors import IntegrityError
from dis_store.foundation import Foundation
from dis_store.locks import try_lock

# The manifest of the tree that is being registered: it tells the next start what to take back.
INTENT = "manifest.json"
# A directory of an object, relative to the store, that is writable for a moment: the next start makes it read-only.
UNSEALED = "unsealed"


@dataclass(frozen=True)
class WorkSpace:
    """A directory of one's own: `path`, held by the lock on `descriptor`."""

    path: Path
    descriptor: int

    def fresh(self) -> Path:
        """Return a name in here that nothing bears."""
        return self.path / os.urandom(16).hex()

    def remove(self) -> None:
        """Remove the directory with all that is in it, then give up the lock."""
        try:
            remove_tree(self.path)
        finally:
            os.close(self.descriptor)


def open_work_space(tmp: Path) -> WorkSpace:
    """Make a private directory in `tmp`."""
    while True:
        path = tmp / os.urandom(16).hex()
        path.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            # Not what umask left of it: the owner must be able to work here.
            path.chmod(0o700)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            # A starting process may have taken it for abandoned, before the lock.
            if try_lock(descriptor) and os.fstat(descriptor).st_nlink > 0:
                return WorkSpace(path, descriptor)
            os.close(descriptor)


@contextlib.contextmanager
def work_space(tmp: Path) -> Iterator[WorkSpace]:
    """Make a private directory for the time of a block."""
    space = open_work_space(tmp)
    try:
        yield space
    finally:
        space.remove()


@contextlib.contextmanager
def private_file(tmp: Path) -> Iterator[tuple[Path, int]]:
    """Make a private file in `tmp` for the time of a block: its path, and a descriptor that writes and holds its lock.

    What the block renames elsewhere stays; otherwise the file is gone afterwards.
    """
    path, descriptor = _open_private_file(tmp)
    try:
        yield path, descriptor
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _open_private_file(tmp: Path) -> tuple[Path, int]:
    while True:
        path = tmp / os.urandom(16).hex()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        # A starting process may have taken it for abandoned, before the lock.
        if try_lock(descriptor) and os.fstat(descriptor).st_nlink > 0:
            return path, descriptor
        os.close(descriptor)


def remove_abandoned(foundation: Foundation) -> None:
    """Remove what dead processes left in `tmp/` and `trash/`."""
    for path in foundation.layout.room("tmp").iterdir():
        with _claimed(path) as claimed:
            if claimed:
                _take_back(foundation, path)
                _reseal(foundation, path)
                remove_tree(path)
    empty_trash(foundation)


def empty_trash(foundation: Foundation) -> None:
    """Delete what lies in `trash/`, unless another process is at it."""
    trash = foundation.layout.room("trash")
    if any(trash.iterdir()):
        with foundation.locks.emptying_trash() as mine:
            if mine:
                # Not imported by every start: it brings threads along.
                from dis_store.garbage_collection.trash import empty

                empty(trash)


@contextlib.contextmanager
def _claimed(path: Path) -> Iterator[bool]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        # Gone already, or made by nobody that works here.
        yield False
        return
    try:
        yield try_lock(descriptor)
    finally:
        os.close(descriptor)


def _take_back(foundation: Foundation, abandoned: Path) -> None:
    """Withdraw the object that a process had put in place when it died before the commit."""
    try:
        digest = Digest.of((abandoned / INTENT).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return
    # A missing or damaged index knows nothing, and must not make good objects garbage: `dis store reindex` decides.
    with (
        contextlib.suppress(IntegrityError),
        foundation.locks.sharing(),
        foundation.locks.placing(digest),
    ):
        if not foundation.is_valid(digest):
            withdraw(foundation, digest, foundation.layout.room("trash"))


def _reseal(foundation: Foundation, abandoned: Path) -> None:
    """Finish what a process had begun when it died while a directory of an object was writable."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        directory = Path((abandoned / UNSEALED).read_text(encoding="utf-8"))
        if directory.parts[:1] == ("objects",) and ".." not in directory.parts:
            seal_directory(foundation.top / directory)


def seal_directory(directory: Path) -> None:
    """Give a directory of an object the mode and the time that it must have."""
    directory.chmod(0o555)
    os.utime(directory, ns=(1_000_000_000, 1_000_000_000))


def withdraw(foundation: Foundation, digest: Digest, room: Path) -> None:
    """Move an object that is not in the index to `room`, which is going to be emptied. The caller holds its lock.

    Nothing waits for the disk: should the object come back after a power cut, a collection finds it.
    """
    layout = foundation.layout
    # One that has a row is being repaired: its manifest tells the next repair what it must be.
    if not foundation.has_row(digest):
        layout.manifest(digest).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        discard_tree(layout.object(digest), room)


def discard_tree(tree: Path, trash: Path) -> None:
    """Rename a tree, read-only as it is, to a new name in `trash`; its old directory is not synchronised.

    Raises:
        FileNotFoundError: There is no such tree.
    """
    # Nobody but root may move a directory that cannot be written.
    if not tree.is_symlink() and tree.is_dir():
        tree.chmod(0o755)
    tree.rename(trash / f"{tree.name}-{os.urandom(8).hex()}")
