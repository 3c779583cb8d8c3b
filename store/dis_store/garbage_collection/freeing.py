"""Foretelling what deletion frees: the bytes of the inodes that lose their last names."""

import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from dis_store.garbage_collection.link_sweep import link_statuses
from dis_store.layout import Layout

# A name in `links/` goes with the last other name of its inode.
_LAST_NAME_IS_SWEPT = 1


class Freeing:
    """What goes when trees are deleted one after the other. Reads the disk, and changes nothing.

    Attributes:
        swept_bytes: What sweeping `links/` frees before any tree goes: names that a crash left.
        files: How many files have lost their last names so far.
    """

    def __init__(self, layout: Layout) -> None:
        # How many names an inode has that nothing of what went so far has taken.
        self._left: Counter[int] = Counter()
        self._linked: set[int] = set()
        self.swept_bytes = 0
        self.files = 0
        for status in link_statuses(layout):
            if status.st_nlink == 1:
                self.swept_bytes += status.st_size
                self.files += 1
            else:
                self._linked.add(status.st_ino)

    def delete(self, tree: Path) -> int:
        """Return the bytes that are freed when this tree goes after those of the calls before."""
        freed = 0
        # What stands in the place of a tree and is none, such as a symlink to one, frees nothing.
        for status in () if tree.is_symlink() else _file_statuses(str(tree)):
            inode = status.st_ino
            left = (self._left.get(inode) or status.st_nlink) - 1
            self._left[inode] = left
            if left == 0 or (left == _LAST_NAME_IS_SWEPT and inode in self._linked):
                freed += status.st_size
                self.files += 1
        return freed


def _file_statuses(directory: str) -> Iterator[os.stat_result]:
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _file_statuses(entry.path)
                    continue
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    yield status
    except (FileNotFoundError, NotADirectoryError):
        # A damaged store may have lost it.
        return
