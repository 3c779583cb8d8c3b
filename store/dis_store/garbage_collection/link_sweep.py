"""Removing the names in `links/` that are the last ones of their inodes."""

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dis_store.layout import Layout
from dis_store.sharded import shards
from dis_store.work_progress import Progress, counter

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# More than there are processors: some of them always wait for the disk.
_WORKERS = 4


def sweep_links(layout: Layout, progress: Progress | None = None) -> int:
    """Remove the names that are the last of their inodes; return the bytes of these.

    A writer may take such a name at the same moment: it keeps the inode then, and only the sharing is lost.

    Args:
        layout: Where the store is.
        progress: Told of the directories that are done.
    """
    found = shards(layout.room("links"))
    on_swept = counter(progress, len(found))
    freed = 0
    with ThreadPoolExecutor(_WORKERS) as pool:
        for size in pool.map(_sweep, found):
            freed += size
            on_swept(1)
    return freed


def _sweep(shard: Path) -> int:
    freed = 0
    with _opened(shard) as descriptor:
        for name in os.listdir(descriptor):  # noqa: PTH208 - a descriptor
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if status.st_nlink == 1:
                    os.unlink(name, dir_fd=descriptor)
                    freed += status.st_size
    return freed


def link_statuses(layout: Layout) -> Iterator[os.stat_result]:
    """Yield the status of everything in `links/`."""
    for shard in shards(layout.room("links")):
        with _opened(shard) as descriptor:
            for name in os.listdir(descriptor):  # noqa: PTH208 - a descriptor
                with contextlib.suppress(FileNotFoundError):
                    yield os.stat(name, dir_fd=descriptor, follow_symlinks=False)


@contextlib.contextmanager
def _opened(shard: Path) -> Iterator[int]:
    descriptor = os.open(shard, _DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
