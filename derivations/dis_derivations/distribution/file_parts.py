"""Large files in parts that begin and end where tensors do: a file of which one tensor changed keeps the other parts.

The bytes of a file are cut in this order (docs/internals/formats/registry.md has an example):

1. What is before the first tensor is a part of its own.
2. A tensor of more than 64 MiB is cut every 64 MiB, counted from its start, and shares no part with others.
3. Other tensors are gathered, in the order of the file, until a part has at least the smallest size or the next
   tensor would take it over 64 MiB.

A file without tensors is cut every 64 MiB.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from dis_store import Store
from dis_store.digest import Digest, Sha256
from dis_store.environment import reading
from dis_store.errors import IntegrityError
from dis_store.hashing import hash_descriptor
from dis_store.tree import Tree

LARGEST = 64 << 20
"""The most bytes that a part has."""
WHOLE_UP_TO = 8 << 30
"""A longer file travels in parts without being asked: several registries take no layer of more than 10 GB."""
MOST = 10_000
"""The most parts that an object has: their manifest must be one that registries take."""
SMALLEST = (4 << 20, 8 << 20, 16 << 20, 32 << 20, LARGEST)
"""What parts have at least: the first of these with which an object has no more than `MOST`."""
_PLAN = "the parts of a file, format 1: "
_HASHED_AT_ONCE = 2
_PIECE = 1 << 20


@dataclass(frozen=True)
class FilePart:
    """Some bytes of a file.

    Attributes:
        offset: Of the first one.
        size: How many.
        sha256: Of them.
    """

    offset: int
    size: int
    sha256: Sha256


@dataclass(frozen=True)
class _Large:
    path: str
    blake3: Digest
    real: Path


def cut(size: int, tensors: Sequence[tuple[int, int]], smallest: int) -> list[int]:
    """Return where the parts of a file begin, and last where the file ends.

    Args:
        size: Of the file.
        tensors: Offset and length of each, in the order of the file.
        smallest: What parts have at least, but for those at an end.
    """
    ends = [0]

    def close(at: int) -> None:
        if at > ends[-1]:
            ends.append(at)

    # Where the tensors that are gathered end.
    position = 0
    if tensors:
        position = tensors[0][0]
        close(position)
    for offset, length in tensors:
        end = offset + length
        if end - ends[-1] > LARGEST or offset - ends[-1] >= smallest:
            close(offset)
        position = end
        while position - ends[-1] > LARGEST:
            close(ends[-1] + LARGEST)
        if length > LARGEST:
            close(position)
    while size - ends[-1] > LARGEST:
        close(ends[-1] + LARGEST)
    close(size)
    return ends


def parts_of_files(
    store: Store,
    tree: Tree,
    check_interrupted: Callable[[], None],
    *,
    wanted: bool,
) -> dict[Digest, tuple[FilePart, ...]]:
    """Return the parts of those files of an object that travel so.

    The SHA-256 of parts is found once; the store remembers it.

    Args:
        store: The store, which has the object.
        tree: The object.
        check_interrupted: Raises when the user asked to stop.
        wanted: Whether all files of more than one part are meant, and not only those that are longer than
            `WHOLE_UP_TO`.

    Raises:
        IntegrityError: A file is not what its digest says.
    """
    limit = LARGEST if wanted else WHOLE_UP_TO
    files = {entry.blake3: entry for entry in tree.files if entry.size > limit}
    if not files:
        return {}
    large = [
        _Large(entry.path, entry.blake3, store.object_path(tree.digest) / entry.path)
        for entry in files.values()
    ]
    tensors = [[(each.offset, each.length) for each in store.tensors(file)] for file in large]
    for smallest in SMALLEST:
        found = [
            cut(entry.size, places, smallest)
            for entry, places in zip(files.values(), tensors, strict=True)
        ]
        if sum(len(each) - 1 for each in found) <= MOST:
            break
    else:
        # They travel whole: better a large layer than a manifest that nobody takes.
        return {}
    return {
        file.blake3: _parts(store, tree.digest, file, ends, check_interrupted)
        for file, ends in zip(large, found, strict=True)
    }


def _parts(
    store: Store, owner: Digest, file: _Large, ends: Sequence[int], check: Callable[[], None]
) -> tuple[FilePart, ...]:
    key = Digest.of(f"{_PLAN}{file.blake3} {json.dumps(ends)}".encode())
    known = store.recall_plan(key)
    if known is None:
        known = json.dumps(_hashed(file, ends, check))
        store.remember_plan(key, known, [owner])
    return tuple(
        FilePart(start, end - start, Sha256(digest))
        for (start, end), digest in zip(pairwise(ends), json.loads(known), strict=True)
    )


def _hashed(file: _Large, ends: Sequence[int], check: Callable[[], None]) -> list[str]:
    descriptor = os.open(file.real, os.O_RDONLY | os.O_NOFOLLOW)
    try:

        def hashed(place: tuple[int, int]) -> str:
            check()
            hasher = hashlib.sha256()
            for piece in read_from(descriptor, *place):
                hasher.update(piece)
            return f"sha256:{hasher.hexdigest()}"

        with reading(file.real), ThreadPoolExecutor(_HASHED_AT_ONCE, "dis-parts") as pool:
            digests = list(pool.map(hashed, pairwise(ends)))
        # What is remembered of a file must be true of what it has to be.
        with reading(file.real):
            _, found = hash_descriptor(descriptor, on_bytes=lambda _: check())
    finally:
        os.close(descriptor)
    if found != file.blake3:
        raise IntegrityError(
            f"{file.path} has changed in the store",
            cause=f"its BLAKE3 is {found}, and must be {file.blake3}",
            hint="see what else is damaged: dis store verify --all",
        )
    return digests


def read_from(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of an open file from a position to before another, as far as there are any."""
    while start < end and (piece := os.pread(descriptor, min(_PIECE, end - start), start)):
        start += len(piece)
        yield piece
