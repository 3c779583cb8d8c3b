"""Finding good copies of the contents of files: in the store, in quarantine, and where the user says."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from dis_store.digest import Digest
from dis_store.errors import IntegrityError
from dis_store.foundation import Foundation, read_tree
from dis_store.integrity.inspection import about_the_disk, hash_file
from dis_store.tree import FileEntry


class Copies:
    """Good copies, looked for in this order: shared inodes, other objects, quarantine, the user's directories.

    Args:
        foundation: The store.
        donors: Files and directories outside the store that may hold copies; symlinks in them are not followed.
    """

    def __init__(self, foundation: Foundation, donors: Sequence[Path]) -> None:
        self._foundation = foundation
        self._donors = [foundation.layout.room("quarantine"), *donors]
        self._by_size: dict[int, list[Path]] | None = None

    def find(self, entry: FileEntry) -> Path | None:
        """Return a file with the content of `entry`, read and found right; None if there is none."""
        for path in self._candidates(entry):
            if hash_file(path) == entry.blake3:
                return path
        return None

    def _candidates(self, entry: FileEntry) -> Iterator[Path]:
        layout = self._foundation.layout
        for executable in (False, True):
            link = layout.link(entry.blake3, executable=executable)
            if _size(link) == entry.size:
                yield link
        yield from self._in_objects(entry)
        yield from self._outside(entry.size)

    def _in_objects(self, entry: FileEntry) -> Iterator[Path]:
        rows = self._foundation.index.query(
            "SELECT digest FROM objects JOIN object_files ON object = id WHERE blake3 = ?",
            (entry.blake3,),
        )
        for (digest,) in rows:
            try:
                files = read_tree(self._foundation.layout, Digest(digest)).files
            except IntegrityError:
                continue
            top = self._foundation.layout.object(Digest(digest))
            for other in files:
                if other.blake3 == entry.blake3 and _size(top / other.path) == entry.size:
                    yield top / other.path

    def _outside(self, size: int) -> Iterator[Path]:
        if self._by_size is None:
            self._by_size = {}
            for donor in self._donors:
                for path in _regular_files(donor):
                    self._by_size.setdefault(path.lstat().st_size, []).append(path)
        yield from self._by_size.get(size, ())


def _size(path: Path) -> int | None:
    """Return the bytes of a regular file; None if there is none."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _regular_files(top: Path) -> Iterator[Path]:
    if _size(top) is not None:
        yield top
    for directory, _, names in os.walk(top, onerror=about_the_disk):
        for name in names:
            path = Path(directory, name)
            if _size(path) is not None:
                yield path
