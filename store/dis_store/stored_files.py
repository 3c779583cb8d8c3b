"""Files that the store has already, by the SHA-256 that others know them by."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dis_store.digest import Digest, Sha256
from dis_store.errors import IntegrityError
from dis_store.foundation import Foundation
from dis_store.hashing import Content, hash_content
from dis_store.tree import Tree

# Of many objects with one file, more would tell no more.
_TRIED = 4


@dataclass(frozen=True)
class StoredContent:
    """A file of an object, just read: where it is, which inode it was, and what it holds."""

    path: Path
    inode: tuple[int, int]
    content: Content


def has_stored(foundation: Foundation, sha256: Sha256) -> bool:
    """Tell whether an object has such a file, as the index says; nothing is read."""
    return any(True for _ in _named(foundation, sha256))


def open_stored(
    foundation: Foundation, sha256: Sha256, on_bytes: Callable[[int], None]
) -> Iterator[StoredContent]:
    """Yield files that hold what is wanted, each read to its end: what has rotted in the store is passed over.

    Args:
        foundation: The store.
        sha256: What a file must hold.
        on_bytes: Called with the number of bytes of each piece that was read.
    """
    for path in _named(foundation, sha256):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            status = os.fstat(descriptor)
            content = hash_content(descriptor, on_bytes=on_bytes)
        finally:
            os.close(descriptor)
        if content.sha256 == sha256:
            yield StoredContent(path, (status.st_dev, status.st_ino), content)
        else:
            on_bytes(-content.size)


def files_of_size(foundation: Foundation, size: int) -> Iterator[Path]:
    """Yield a few files of a size, each of another content: what they hold is for the caller to find out."""
    return _places(
        foundation,
        "SELECT files.blake3, min(objects.digest) FROM files"
        " JOIN object_files ON object_files.blake3 = files.blake3"
        " JOIN objects ON objects.id = object_files.object WHERE files.size = ?"
        " GROUP BY files.blake3 LIMIT ?",
        size,
    )


def _named(foundation: Foundation, sha256: Sha256) -> Iterator[Path]:
    return _places(
        foundation,
        "SELECT files.blake3, objects.digest FROM files"
        " JOIN object_files ON object_files.blake3 = files.blake3"
        " JOIN objects ON objects.id = object_files.object WHERE files.sha256 = ? LIMIT ?",
        sha256,
    )


def _places(foundation: Foundation, query: str, wanted: Sha256 | int) -> Iterator[Path]:
    for blake3, owner in foundation.index.query(query, (wanted, _TRIED)):
        tree = _tree(foundation, Digest(owner))
        for entry in () if tree is None else tree.files:
            if entry.blake3 == blake3 and not entry.executable:
                yield foundation.layout.object(Digest(owner)) / entry.path
                break


def _tree(foundation: Foundation, owner: Digest) -> Tree | None:
    try:
        return foundation.tree(owner) if foundation.protect([owner]) else None
    except IntegrityError:
        return None
