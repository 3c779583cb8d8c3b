"""Hashing many files at once, each shared inode only once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from dis_store.digest import Digest
from dis_store.integrity.inspection import FileCheck, hash_file
from dis_store.work_progress import uncounted

Found = TypeVar("Found")
Inode = tuple[int, int]

# From here on a file is worth all threads, and so many bytes of such files are worth another process.
_LARGE_BYTES = 8 << 20
_WORTH_MAPPING_BYTES = 128 << 20


def read_each_inode_once(
    checks: Iterable[FileCheck], read: Callable[[Path], Found], *, jobs: int
) -> Mapping[Inode, Found]:
    """Apply `read` to one name of each inode, in `jobs` threads; return what it found."""
    names: dict[Inode, Path] = {}
    for check in checks:
        names.setdefault(check.inode, check.real)
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        return dict(zip(names, pool.map(read, names.values()), strict=True))


def digests_of_inodes(
    checks: Sequence[FileCheck],
    *,
    jobs: int,
    mapped: bool = True,
    on_bytes: Callable[[int], None] = uncounted,
) -> Mapping[Inode, Digest | OSError]:
    """Return the BLAKE3 of each inode, or the error that kept it from being read.

    Args:
        checks: The files.
        jobs: How many threads work.
        mapped: Whether large files may be mapped, one after the other with all threads; meanwhile others are read,
            each with one. They are in large pieces then, which nobody can hold back.
        on_bytes: Called with the number of bytes of each piece, from several threads.
    """
    large = {check.inode: check for check in checks if check.entry.size >= _LARGE_BYTES}
    if not mapped or sum(check.entry.size for check in large.values()) < _WORTH_MAPPING_BYTES:
        return _read(checks, jobs=jobs, on_bytes=on_bytes)
    small = [check for check in checks if check.inode not in large]
    with ThreadPoolExecutor(1) as pool:
        digests = pool.submit(_map, list(large.values()), jobs, on_bytes)
        return {**_read(small, jobs=jobs, on_bytes=on_bytes), **digests.result()}


def _read(
    checks: Sequence[FileCheck], *, jobs: int, on_bytes: Callable[[int], None]
) -> Mapping[Inode, Digest | OSError]:
    # With fewer files than threads, each file gets several.
    threads = max(1, jobs // max(1, len({check.inode for check in checks})))
    read = partial(hash_file, threads=threads, on_bytes=on_bytes)
    return read_each_inode_once(checks, read, jobs=jobs)


def _map(
    checks: Sequence[FileCheck], threads: int, on_bytes: Callable[[int], None]
) -> Mapping[Inode, Digest | OSError]:
    from dis_store.integrity.mapped_hashing import MappedHasher

    with MappedHasher(threads=threads) as hasher:
        return {check.inode: hasher.digest_of(check.real, on_bytes) for check in checks}
