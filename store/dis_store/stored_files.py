"""Files that the store has already, by the digests that others know them by.

The SHA-256 of a file that came in without one is computed when somebody asks for it, once: the index keeps it. Whoever
knows the SHA-256 alone has files of the same size read, a few for each question: many may be of one size, all that a
model was trained to, and reading all of them may take longer than to fetch the one again.
"""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dis_store.contents import ResolvedFile, changed
from dis_store.digest import Digest, Sha256
from dis_store.environment import reading
from dis_store.errors import IntegrityError, UnfitEnvironmentError
from dis_store.foundation import Foundation
from dis_store.hashing import Content, hash_content
from dis_store.integrity.inspection import about_the_disk
from dis_store.tree import Tree
from dis_store.work_progress import uncounted
from dis_store.writing.index_rows import enter_contents, remember

# Of many objects with one file, more would tell no more; of many files with one size, more would take too long.
_TRIED = 4

_FILES = (
    " FROM files JOIN object_files ON object_files.blake3 = files.blake3"
    " JOIN objects ON objects.id = object_files.object WHERE files."
)
_OF_BLAKE3 = f"SELECT files.blake3, objects.digest{_FILES}blake3 = ? LIMIT ?"
_OF_SHA256 = f"SELECT files.blake3, objects.digest{_FILES}sha256 = ? LIMIT ?"
_OF_SIZE = f"SELECT files.blake3, min(objects.digest){_FILES}size = ? GROUP BY files.blake3 LIMIT ?"
# The last ones that came in are those that somebody is most likely to ask for.
_UNASKED = (
    f"SELECT files.blake3, objects.digest{_FILES}size = ? AND files.sha256 = ''"
    " GROUP BY files.blake3 ORDER BY max(objects.id) DESC LIMIT ?"
)


@dataclass(frozen=True)
class StoredContent:
    """A file of an object, just read: where it is, which inode it was, and what it holds."""

    path: Path
    inode: tuple[int, int]
    content: Content


def has_file(foundation: Foundation, blake3: Digest) -> bool:
    """Tell whether an object has such a file, not executable; nothing is read."""
    return any(True for _ in _places(foundation, _OF_BLAKE3, blake3))


def has_stored(
    foundation: Foundation,
    sha256: Sha256,
    size: int | None,
    on_bytes: Callable[[int], None] = uncounted,
) -> bool:
    """Tell whether an object has such a file, not executable; see `StoreReader.has_content`."""
    if any(True for _ in _places(foundation, _OF_SHA256, sha256)):
        return True
    found = _find_by_size(foundation, sha256, size, on_bytes)
    if isinstance(found, StoredContent):
        on_bytes(-found.content.size)
    return found is not None


def sha256_of(
    foundation: Foundation, blake3: Digest, on_bytes: Callable[[int], None] = uncounted
) -> Sha256 | None:
    """Return the SHA-256 of a file's content; see `StoreReader.sha256_of`."""
    known = foundation.index.value("SELECT sha256 FROM files WHERE blake3 = ?", (blake3,))
    if known is None:
        return None
    if known:
        return Sha256(known)
    damage: IntegrityError | None = None
    with foundation.hashing:
        if (found := foundation.sha256s.get(blake3)) is not None:
            return found
        for file in _places(foundation, _OF_BLAKE3, blake3, executable=True):
            try:
                return _named(foundation, file, on_bytes).content.sha256
            except IntegrityError as error:
                damage = error
    if damage is not None:
        raise damage
    return None


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
        on_bytes: Called with the number of bytes of each piece that was read, and with how many were read in vain,
            below zero.
    """
    query = _OF_SHA256 if isinstance(wanted, Sha256) else _OF_BLAKE3
    known: list[ResolvedFile | StoredContent] = [*_places(foundation, query, wanted)]
    if not known and isinstance(wanted, Sha256):
        named = _find_by_size(foundation, wanted, size, on_bytes)
        known += [] if named is None else [named]
    for each in known:
        with contextlib.suppress(IntegrityError):
            found = each if isinstance(each, StoredContent) else _read(each, on_bytes)
            # A damaged index may name another file.
            if wanted in (found.content.blake3, found.content.sha256):
                yield found
            else:
                on_bytes(-found.content.size)


def files_of_size(foundation: Foundation, size: int) -> Iterator[Path]:
    """Yield a few files of a size, each of another content: what they hold is for the caller to find out."""
    return (file.real for file in _places(foundation, _OF_SIZE, size))


def _find_by_size(
    foundation: Foundation, sha256: Sha256, size: int | None, on_bytes: Callable[[int], None]
) -> StoredContent | ResolvedFile | None:
    """Read a few files of a size that have no SHA-256 yet, and keep what they have; return the one that is wanted."""
    if size is None:
        return None
    # One after the other: threads that look for shards of one size would all read the same files.
    with foundation.hashing:
        if (known := next(_places(foundation, _OF_SHA256, sha256), None)) is not None:
            return known
        for file in _places(foundation, _UNASKED, size, executable=True):
            if foundation.sha256s.get(file.blake3, sha256) != sha256:
                continue
            with contextlib.suppress(IntegrityError):
                found = _named(foundation, file, on_bytes)
                if found.content.sha256 == sha256 and not file.executable:
                    return found
                on_bytes(-size)
                if found.content.sha256 == sha256:
                    return next(_places(foundation, _OF_BLAKE3, file.blake3), None)
    return None


def _named(
    foundation: Foundation, file: ResolvedFile, on_bytes: Callable[[int], None]
) -> StoredContent:
    """Read a file for its SHA-256, and keep that.

    Raises:
        IntegrityError: It is not what it must be.
    """
    try:
        found = _read(file, on_bytes)
    except IntegrityError:
        foundation.sha256s[file.blake3] = None
        raise
    foundation.sha256s[file.blake3] = found.content.sha256
    # It is only spared work: on a full disk, or where nothing may be written, the answer is as good.
    with contextlib.suppress(UnfitEnvironmentError):
        remember(foundation.index, file.blake3, lambda rows: enter_contents(rows, [found.content]))
    return found


def _read(file: ResolvedFile, on_bytes: Callable[[int], None]) -> StoredContent:
    """Read a file to its end.

    Raises:
        IntegrityError: It is not what it must be, or the disk does not give what is in it.
    """
    came = 0

    def count(amount: int) -> None:
        nonlocal came
        came += amount
        on_bytes(amount)

    try:
        with _opened(file) as (descriptor, status):
            content = hash_content(descriptor, on_bytes=count)
        if content.blake3 != file.blake3:
            raise changed(file, f"its BLAKE3 is {content.blake3}, and must be {file.blake3}")
    except IntegrityError:
        if came:
            on_bytes(-came)
        raise
    return StoredContent(file.real, (status.st_dev, status.st_ino), content)


@contextlib.contextmanager
def _opened(file: ResolvedFile) -> Iterator[tuple[int, os.stat_result]]:
    try:
        # A named pipe in its place must not wait for somebody to write to it.
        descriptor = os.open(file.real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise changed(file, str(about_the_disk(error))) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise changed(file, "it is no regular file any more")
        if status.st_size != file.size:
            raise changed(file, f"it has {status.st_size} bytes, and must have {file.size}")
        with reading(file.real):
            yield descriptor, status
    finally:
        os.close(descriptor)


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
