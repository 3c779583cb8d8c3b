"""Registering objects whose contents lie in a work space, each under its BLAKE3."""

import shutil
from collections.abc import Mapping

from dis_store.digest import Digest
from dis_store.hashing import Content
from dis_store.store import Store
from dis_store.tree import FileEntry, Tree
from dis_store.writing.work_space import WorkSpace


def register_received(
    store: Store, digest: Digest, tree: Tree, contents: Mapping[Digest, Content], space: WorkSpace
) -> None:
    """Make an object of contents that were compared with their digests; all that it refers to is in the store.

    Args:
        store: The store.
        digest: What the object must be.
        tree: Its manifest.
        contents: What each content was found to be.
        space: Holds the contents.

    Raises:
        IntegrityError: A reference is not in the store, or something is not what it must be.
    """
    with store.new_tree(portable_names=tree.portable_names) as writer:
        for entry in tree.entries:
            if not isinstance(entry, FileEntry):
                writer.reference(entry.path, entry.object, entry.subpath)
                continue
            # A file that is executable in one place and not in another needs two inodes.
            source = space.path / (f"{entry.blake3}-x" if entry.executable else entry.blake3)
            if not source.exists():
                shutil.copyfile(space.path / entry.blake3, source)
            status = source.lstat()
            writer.take(
                entry.path,
                source,
                contents[entry.blake3],
                inode=(status.st_dev, status.st_ino),
                executable=entry.executable,
                shared=True,
            )
        writer.register(expected=digest)
