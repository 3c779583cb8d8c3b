"""Files that the store has already, by the digests that others know them by.

The SHA-256 of a file that came in without one is computed when somebody asks for it, once: the index keeps it.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dis_store.contents import ResolvedFile, changed
from dis_store.digest import Digest, Sha256
from dis_store.environment import reading
from dis_store.errors import IntegrityError
from dis_store.foundation import Foundation
from dis_store.hashing import Content, hash_content, uncounted
from dis_store.index import Index
from dis_store.integrity.inspection import about_the_disk
from dis_store.tree import Tree
from dis_store.writing.index_rows import enter_contents

# Of many objects with one file, more would tell no more.
_TRIED = 4

_FILES = (
    " FROM files JOIN object_files ON object_files.blake3 = files.blake3"
    " JOIN objects ON objects.id = object_files.object WHERE files."
)
_OF_BLAKE3 = f"SELECT files.blake3, objects.digest{_FILES}blake3 = ? LIMIT ?"
_OF_SHA256 = f"SELECT files.blake3, objects.digest{_FILES}sha256 = ? LIMIT ?"
_OF_SIZE = f"SELECT files.blake3, min(objects.digest){_FILES}size = ? GROUP BY files.blake3 LIMIT ?"
_WITHOUT_SHA256 = "SELECT blake3 FROM files WHERE sha256 = '' AND size = ?"


@dataclass(frozen=True)
class StoredContent:
    """A file of an object, just read: where it is, which inode it was, and what it holds."""

    path: Path
    inode: tuple[int, int]
    content: Content


def has_stored(foundation: Foundation, sha256: Sha256, size: int | None) -> bool:
    """Tell whether an object has such a file, not executable; see `StoreReader.has_content`."""
    return any(True for _ in _named(foundation, sha256, size))


def sha256_of(
    foundation: Foundation, blake3: Digest, on_bytes: Callable[[int], None] | None = None
) -> Sha256 | None:
    """Return the SHA-256 of a file's content; see `StoreReader.sha256_of`."""
    known = foundation.index.value("SELECT sha256 FROM files WHERE blake3 = ?", (blake3,))
    if known is None:
        return None
    return Sha256(known) if known else _computed(foundation, blake3, on_bytes or uncounted)


def open_stored(
    foundation: Foundation,
    wanted: Digest | Sha256,
    size: int | None,
    on_bytes: Callable[[int], None],
) -> Iterator[StoredContent]:
    """Yield files that hold what is wanted, each read to its end: what has rotted in the store is passed over.

    Args:
        foundation: The store.
        wanted: A digest of what a file must hold.
        size: Its bytes; None if that is not known.
        on_bytes: Called with the number of bytes of each piece that was read.
    """
    for file in _named(foundation, wanted, size):
        with contextlib.suppress(IntegrityError):
            stored = _read(file, on_bytes)
            if wanted in (stored.content.blake3, stored.content.sha256):
                yield stored
            else:
                on_bytes(-stored.content.size)


def files_of_size(foundation: Foundation, size: int) -> Iterator[Path]:
    """Yield a few files of a size, each of another content: what they hold is for the caller to find out."""
    return (file.real for file in _places(foundation, _OF_SIZE, size))


def _named(
    foundation: Foundation, wanted: Digest | Sha256, size: int | None
) -> Iterator[ResolvedFile]:
    """Yield files of a digest. For a SHA-256, those of its size that have none yet are read."""
    if isinstance(wanted, Digest):
        yield from _places(foundation, _OF_BLAKE3, wanted)
        return
    known = False
    for file in _places(foundation, _OF_SHA256, wanted):
        known = True
        yield file
    if known or size is None:
        return
    for (text,) in foundation.index.query(_WITHOUT_SHA256, (size,)):
        blake3 = Digest(text)
        with contextlib.suppress(IntegrityError):
            if _computed(foundation, blake3, uncounted) == wanted:
                yield from _places(foundation, _OF_BLAKE3, blake3)
                return


def _computed(
    foundation: Foundation, blake3: Digest, on_bytes: Callable[[int], None]
) -> Sha256 | None:
    """Read a file for its SHA-256, and keep that; None if no object has the file.

    Raises:
        IntegrityError: The file is not what it must be, wherever it was looked for.
    """
    damage: IntegrityError | None = None
    for file in _places(foundation, _OF_BLAKE3, blake3, executable=True):
        try:
            content = _read(file, on_bytes).content
            if content.blake3 != blake3:
                raise changed(file, f"its BLAKE3 is {content.blake3}, and must be {blake3}")
        except IntegrityError as error:
            damage = error
        else:
            _remember(foundation.index, content)
            return content.sha256
    if damage is not None:
        raise damage
    return None


def _remember(index: Index, content: Content) -> None:
    if index.read_only:
        return
    with index.transaction() as transaction:
        # A collection may have taken it meanwhile.
        if transaction.execute("SELECT 1 FROM files WHERE blake3 = ?", (content.blake3,)):
            enter_contents(transaction, [content])


def _read(file: ResolvedFile, on_bytes: Callable[[int], None]) -> StoredContent:
    """Read a file to its end.

    Raises:
        IntegrityError: It cannot be opened, or the disk does not give what is in it.
    """
    try:
        descriptor = os.open(file.real, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise changed(file, str(about_the_disk(error))) from error
    try:
        with reading(file.real):
            status = os.fstat(descriptor)
            content = hash_content(descriptor, on_bytes=on_bytes)
    finally:
        os.close(descriptor)
    return StoredContent(file.real, (status.st_dev, status.st_ino), content)


def _places(
    foundation: Foundation, query: str, wanted: str | int, *, executable: bool = False
) -> Iterator[ResolvedFile]:
    """Yield what a query finds, each in another object, as far as their manifests are whole."""
    for blake3, owner in foundation.index.query(query, (wanted, _TRIED)):
        digest = Digest(owner)
        tree = _tree(foundation, digest)
        for entry in () if tree is None else tree.files:
            if entry.blake3 == blake3 and (executable or not entry.executable):
                real = foundation.layout.object(digest) / entry.path
                yield ResolvedFile(
                    entry.path, entry.size, entry.blake3, entry.executable, real, digest
                )
                break


def _tree(foundation: Foundation, owner: Digest) -> Tree | None:
    try:
        return foundation.tree(owner) if foundation.protect([owner]) else None
    except IntegrityError:
        return None
