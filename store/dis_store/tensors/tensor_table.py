"""What is known of the tensors in files of the store."""

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from blake3 import blake3

from dis_store.digest import Digest
from dis_store.environment import reading
from dis_store.errors import IntegrityError, InvalidInputError
from dis_store.foundation import Foundation
from dis_store.hashing import CHUNK_BYTES
from dis_store.index import Index
from dis_store.tensors import safetensors_header
from dis_store.tensors.safetensors_header import MAX_HEADER_BYTES
from dis_store.tensors.tensor_scan import Tensor, TensorScan
from dis_store.tensors.tensor_set import tensor_set_digest
from dis_store.writing.index_rows import enter_tensors, remember


class StoredFile(Protocol):
    """A file of an object; `ResolvedFile` is one."""

    @property
    def path(self) -> str:
        """Where the object shows it."""
        ...

    @property
    def blake3(self) -> Digest:
        """The digest that its content must have."""
        ...

    @property
    def real(self) -> Path:
        """The file itself."""
        ...


@dataclass(frozen=True)
class TensorCount:
    """How many tensors the files of a store hold; equal files count once.

    Attributes:
        tensors: All of them.
        distinct: How many different contents they have.
        bytes: The bytes of all of them.
        repeated_bytes: How many of these bytes would not be there if each content were held once.
        unscanned_objects: How many objects came in when the index did not keep tensors; it knows only those of their
            files that were asked for since.
    """

    tensors: int
    distinct: int
    bytes: int
    repeated_bytes: int
    unscanned_objects: int


def count(index: Index) -> TensorCount:
    """Count the tensors that the index knows."""
    ((tensors, distinct, size, repeated),) = index.query(
        "SELECT coalesce(sum(n), 0), count(*), coalesce(sum(n * length), 0),"
        " coalesce(sum((n - 1) * length), 0)"
        " FROM (SELECT length, count(*) AS n FROM tensors GROUP BY blake3, length)"
    )
    unscanned = index.value(
        "SELECT count(*) FROM objects WHERE id <= (SELECT max(last) FROM unscanned_objects)"
    )
    return TensorCount(tensors, distinct, size, repeated, unscanned)


def tensors_of(foundation: Foundation, file: StoredFile) -> tuple[Tensor, ...]:
    """Return the tensors of a file; see `StoreReader.tensors`."""
    known = known_tensors(foundation.index, file)
    if known is None:
        known = _scanned(file)
        found = {file.blake3: known}
        remember(foundation.index, file.blake3, lambda rows: enter_tensors(rows, found))
    return known


def known_tensors(index: Index, file: StoredFile) -> tuple[Tensor, ...] | None:
    """Return the tensors of a file without reading them; None if only that would tell."""
    rows = index.query(
        "SELECT name, dtype, shape, offset, length, blake3 FROM tensors WHERE file = ?"
        " ORDER BY offset, length, name",
        (file.blake3,),
    )
    if rows or not _has_tensors(file):
        return tuple(map(_tensor, rows))
    return None


def known_set(index: Index, files: Iterable[StoredFile]) -> Digest | None:
    """Return the digest of all tensors in files; see `StoreReader.tensor_set`."""
    found: list[Tensor] = []
    for file in files:
        known = known_tensors(index, file)
        if known is None:
            return None
        found += known
    return tensor_set_digest(found) if found else None


def _tensor(row: tuple[str, str, str, int, int, str]) -> Tensor:
    name, dtype, shape, offset, length, digest = row
    return Tensor(name, dtype, tuple(json.loads(shape)), offset, length, Digest(digest))


def _has_tensors(file: StoredFile) -> bool:
    """Tell by the header whether there are tensors: no row may mean that nobody has looked yet."""
    try:
        with reading(file.real), file.real.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            header = safetensors_header.read_from(opened, size, name=file.path)
    except InvalidInputError:
        return False
    except FileNotFoundError as error:
        raise _changed(file, "it is not there any more") from error
    return bool(header.tensors)


def _scanned(file: StoredFile) -> tuple[Tensor, ...]:
    scan, whole = TensorScan(MAX_HEADER_BYTES), blake3()
    with reading(file.real), file.real.open("rb", buffering=0) as opened:
        read: Callable[[], bytes] = partial(opened.read, CHUNK_BYTES)
        for chunk in iter(read, b""):
            whole.update(chunk)
            scan.update(chunk)
    # What is remembered of a file must be true of what it has to be.
    if (found := whole.hexdigest()) != file.blake3:
        raise _changed(file, f"its BLAKE3 is {found}, and must be {file.blake3}")
    return scan.finish()


def _changed(file: StoredFile, cause: str) -> IntegrityError:
    return IntegrityError(
        f"{file.path} has changed in the store",
        cause=cause,
        hint="see what else is damaged: dis store verify --all",
    )
