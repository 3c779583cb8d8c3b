"""Hashing many files at once, each shared inode only once."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from dis_store.inspection import FileCheck

Found = TypeVar("Found")
Inode = tuple[int, int]


def read_each_inode_once(
    checks: Iterable[FileCheck], read: Callable[[Path], Found], *, jobs: int
) -> Mapping[Inode, Found]:
    """Apply `read` to one name of each inode, in `jobs` threads; return what it found."""
    names: dict[Inode, Path] = {}
    for check in checks:
        names.setdefault(check.inode, check.real)
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        return dict(zip(names, pool.map(read, names.values()), strict=True))
