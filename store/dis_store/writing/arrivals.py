"""How files that came from elsewhere become part of a new object without being copied."""

from collections.abc import Callable
from functools import partial

from dis_store import stored_files
from dis_store.digest import Digest, Sha256
from dis_store.environment import reported
from dis_store.errors import BuildError
from dis_store.hashing import Content
from dis_store.work_progress import uncounted
from dis_store.writing.downloads import Download, finish
from dis_store.writing.file_writer import WrittenFile
from dis_store.writing.tree_writer import TreeWriter


def has_stored(
    tree: TreeWriter,
    sha256: Sha256,
    size: int | None,
    on_bytes: Callable[[int], None] = uncounted,
) -> bool:
    """Tell whether an object of the store has such a file that may be taken; see `StoreReader.has_content`."""
    if not tree.reuses:
        return False
    with reported(tree.foundation.top):
        return stored_files.has_stored(tree.foundation, sha256, size, on_bytes)


def take_stored(
    tree: TreeWriter,
    path: str,
    wanted: Digest | Sha256,
    size: int | None,
    on_bytes: Callable[[int], None] = uncounted,
) -> WrittenFile | None:
    """Make a file that the store has already part of an object: read again, and by a second name.

    Args:
        tree: The object.
        path: Where in the object.
        wanted: A digest of what the file must hold.
        size: Its bytes; None if that is not known.
        on_bytes: Called with the number of bytes of each piece that was read; a negative one for what is not right.

    Returns:
        None where no object has such a file, whole and not executable, or where the tree takes none from the store.
    """
    if not tree.reuses:
        return None
    with reported(tree.foundation.top):
        for found in stored_files.open_stored(tree.foundation, wanted, size, on_bytes):
            try:
                return tree.take(
                    path,
                    found.path,
                    found.content,
                    inode=found.inode,
                    executable=False,
                    shared=True,
                )
            except (BuildError, OSError):
                # It was collected or replaced meanwhile, or has as many names as it can have.
                on_bytes(-found.content.size)
    return None


def take_download(tree: TreeWriter, path: str, download: Download, content: Content) -> WrittenFile:
    """Make a download that is whole part of an object; it stays where it is until the object is registered.

    Args:
        tree: The object.
        path: Where in the object.
        download: Held by this process.
        content: What was read from it.

    Raises:
        BuildError: Another file is in its place by now.
    """
    with reported(tree.foundation.top):
        status = download.part.lstat()
        written = tree.take(
            path,
            download.part,
            content,
            inode=(status.st_dev, status.st_ino),
            executable=False,
            shared=True,
        )
    tree.when_registered(partial(finish, tree.foundation, download.key))
    return written
