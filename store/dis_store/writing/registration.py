"""Registration: the only way into the store.

The steps and their order are the design (docs/internals/formats/store.md, "Registration"). A crash at any instruction
leaves at most an orphan, which the next start or the next collection removes; nothing is served before the index row
that the last step commits.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from dis_store.digest import Digest
from dis_store.durability import (
    ensure_directory,
    fsync_directory,
    fsync_file,
    make_directory,
    write_new,
)
from dis_store.errors import DisError, IntegrityError
from dis_store.foundation import Foundation
from dis_store.hashing import CHUNK_BYTES, Content
from dis_store.integrity.inspection import (
    DIRECTORY_MODE,
    EXECUTABLE_MODE,
    FILE_MODE,
    MTIME,
    hash_file,
    is_intact,
)
from dis_store.integrity.quarantine import quarantine, quarantined_name
from dis_store.platform_linux import rename_exchange, rename_noreplace, sync_file_system
from dis_store.tree import FileEntry, Tree
from dis_store.writing.index_rows import enter_contents, enter_object
from dis_store.writing.work_space import INTENT, WorkSpace, withdraw

TREE = "tree"
# From so many files on, waiting for the whole file system costs less than waiting for each.
_MANY = 2000
# A link that cannot be made costs space, and no more: too many links, no room in the directory, an inode of another
# user (fs.protected_hardlinks), swept meanwhile, or made meanwhile.
_NO_LINK = frozenset(
    {errno.EMLINK, errno.ENOSPC, errno.EDQUOT, errno.EPERM, errno.ENOENT, errno.EEXIST}
)


def register(
    foundation: Foundation,
    space: WorkSpace,
    tree: Tree,
    contents: Mapping[Digest, Content],
    *,
    unshared: Collection[str] = (),
) -> Digest:
    """Make the tree that lies in `space` an object of the store.

    Args:
        foundation: The store.
        space: Holds the files and symlinks of the tree in its directory `tree`.
        tree: The manifest of exactly that.
        contents: Both digests of each file, by BLAKE3.
        unshared: Paths of files whose inodes no other object may share yet.

    Raises:
        IntegrityError: A reference is not valid, or a file is not what was hashed.
        OSError: The file system refused; nothing was registered.
    """
    digest = tree.digest
    # The references stay valid from here on; each is looked up again when the row is written.
    foundation.protect([digest, *(entry.object for entry in tree.references)])
    if not foundation.is_valid(digest):
        _seal(foundation, space, tree, unshared)
        # It becomes the manifest. Until then it tells the next start what to take back after this process was killed;
        # after a power cut it may be gone, and a collection finds the orphan.
        write_new(space.path / INTENT, tree.encode(), mode=FILE_MODE)
        with foundation.locks.sharing(), foundation.locks.placing(digest):
            if not foundation.is_valid(digest):
                _install(foundation, space, tree, contents)
    return digest


def _seal(foundation: Foundation, space: WorkSpace, tree: Tree, unshared: Collection[str]) -> None:
    """Set modes and times, share inodes, and wait until all of it but the top is on the disk."""
    top = space.path / TREE
    _remove_other_directories(top, tree)
    offered = _seal_files(foundation, space, tree, unshared)
    for reference in tree.references:
        os.utime(top / reference.path, ns=MTIME, follow_symlinks=False)
    for path in reversed(tree.directories):
        directory = top / path
        directory.chmod(DIRECTORY_MODE)
        os.utime(directory, ns=MTIME)
    # The top stays writable, and is waited for, after the rename: nobody but root may move a directory that is not.
    _wait(space, tree)
    # What others may share must be on the disk: they would be told nothing of a failure that was told already.
    for entry in offered:
        _offer(foundation, top / entry.path, entry)


def _wait(space: WorkSpace, tree: Tree) -> None:
    """Wait for all files, those of others among them, and for all directories but the top, from the bottom up."""
    # Or for all that the disk has to write, where that is less work.
    if len(tree.files) >= _MANY and sync_file_system(space.descriptor):
        return
    top = space.path / TREE
    for entry in tree.files:
        fsync_file(top / entry.path)
    for path in reversed(tree.directories):
        fsync_directory(top / path)


def _remove_other_directories(top: Path, tree: Tree) -> None:
    """Remove the directories that only a file, given up later, had needed."""
    expected = frozenset(tree.directories)
    for directory, _, _ in os.walk(top, topdown=False):
        path = Path(directory)
        if path != top and path.relative_to(top).as_posix() not in expected:
            path.rmdir()


def _seal_files(
    foundation: Foundation, space: WorkSpace, tree: Tree, unshared: Collection[str]
) -> list[FileEntry]:
    """Set modes and times, and let equal files share an inode; return the files whose inodes others may share."""
    top = space.path / TREE
    own: dict[Path, FileEntry] = {}
    for entry in tree.files:
        path = top / entry.path
        path.chmod(EXECUTABLE_MODE if entry.executable else FILE_MODE)
        os.utime(path, ns=MTIME)
        shared = _shared(foundation, entry)
        # The first of equal files in this very tree is not offered to others yet.
        place = top / own[shared].path if shared in own else shared
        adopted = _adopt_shared(foundation, space, path, entry, place)
        if not adopted and entry.path not in unshared:
            own[shared] = entry
    return list(own.values())


def _offer(foundation: Foundation, path: Path, entry: FileEntry) -> None:
    """Let equal files share the inode of a file from now on."""
    shared = _shared(foundation, entry)
    with tolerated():
        ensure_directory(shared.parent)
        os.link(path, shared)


def _shared(foundation: Foundation, entry: FileEntry) -> Path:
    return foundation.layout.link(entry.blake3, executable=entry.executable)


def _adopt_shared(
    foundation: Foundation, space: WorkSpace, path: Path, entry: FileEntry, shared: Path
) -> bool:
    """Put the inode that equal files share in the place of `path`, if it is there and is right."""
    own = path.lstat()
    try:
        found = shared.lstat()
    except FileNotFoundError:
        return False
    if os.path.samestat(found, own):
        return True
    if not stat.S_ISREG(found.st_mode) or found.st_mode != own.st_mode:
        # Only the name goes, and the right inode takes it; objects that hold the wrong one are for `verify` to find.
        shared.unlink(missing_ok=True)
        return False
    if not same_bytes(path, shared):
        _set_aside_damaged(foundation, path, entry, shared)
        return False
    link = space.fresh()
    with tolerated():
        os.link(shared, link)
        link.replace(path)
    # If it was not linked, the copy stays in place, and so does the name.
    return True


def _set_aside_damaged(foundation: Foundation, path: Path, entry: FileEntry, shared: Path) -> None:
    """Two files of one name differ: hash both, and quarantine the one that lies."""
    if hash_file(path) != entry.blake3:
        raise IntegrityError(
            f"the file {entry.path!r} is not what was written",
            cause="reading it back gives another BLAKE3",
            hint="check the disk and the memory of this machine",
        )
    with contextlib.suppress(FileNotFoundError):
        quarantine(foundation.layout, shared)


def same_bytes(one: Path, other: Path) -> bool:
    """Compare two files byte by byte."""
    with one.open("rb", buffering=0) as left, other.open("rb", buffering=0) as right:
        if os.fstat(left.fileno()).st_size != os.fstat(right.fileno()).st_size:
            return False
        while chunk := left.read(CHUNK_BYTES):
            if chunk != right.read(CHUNK_BYTES):
                return False
    return True


@contextlib.contextmanager
def tolerated() -> Iterator[None]:
    """Go on without a link that cannot be made."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise


def _install(
    foundation: Foundation, space: WorkSpace, tree: Tree, contents: Mapping[Digest, Content]
) -> None:
    """Put tree and manifest in place, then commit. The caller holds the shared lock and the digest's."""
    own = (space.path / TREE).lstat()
    try:
        _place_tree(foundation, space, tree)
        _publish_manifest(foundation, space, tree)
    except BaseException:
        with contextlib.suppress(OSError, DisError):
            # Only what this process put there: what it found may be the last copy.
            if os.path.samestat(foundation.layout.object(tree.digest).lstat(), own):
                withdraw(foundation, tree.digest, space.path)
        raise
    # A failed commit may have reached the disk, so tree and manifest stay: an orphan at worst, and whole.
    _enter_index(foundation, tree, contents)
    foundation.distrusted.discard(tree.digest)


def _place_tree(foundation: Foundation, space: WorkSpace, tree: Tree) -> None:
    target = foundation.layout.object(tree.digest)
    make_directory(target.parent, lasting=True)
    try:
        rename_noreplace(space.path / TREE, target)
    except FileExistsError:
        # Left by a crash, or damaged.
        if not is_intact(target, tree):
            _replace_damaged(foundation, space, target)
    target.chmod(DIRECTORY_MODE)
    os.utime(target, ns=MTIME)
    fsync_directory(target)
    fsync_directory(target.parent)


def _replace_damaged(foundation: Foundation, space: WorkSpace, target: Path) -> None:
    """Put the tree in the place of a damaged one, which is in quarantine from the same moment on."""
    if target.is_dir() and not target.is_symlink():
        # Nobody but root may move a directory that cannot be written.
        target.chmod(0o755)
    aside = quarantined_name(foundation.layout, target.name)
    (space.path / TREE).rename(aside)
    rename_exchange(aside, target)
    fsync_directory(aside.parent)


def _publish_manifest(foundation: Foundation, space: WorkSpace, tree: Tree) -> None:
    target = foundation.layout.manifest(tree.digest)
    make_directory(target.parent, lasting=True)
    # A second name, so that the first goes on telling what is being registered until the row is there.
    link = space.fresh()
    os.link(space.path / INTENT, link)
    link.replace(target)
    fsync_directory(target.parent)


def _enter_index(foundation: Foundation, tree: Tree, contents: Mapping[Digest, Content]) -> None:
    with foundation.index.transaction() as transaction:
        enter_object(transaction, tree)
        enter_contents(transaction, contents.values())
