"""Signed documents about the builds of a key, or about an object that came without them: opaque bytes, named by digest.

The store neither reads nor believes them. They keep nothing alive, go with the object or with the last record of the
key, and are in no index, so that there is nothing to rebuild.
"""

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from dis_store.digest import Digest
from dis_store.errors import InvalidInputError
from dis_store.foundation import Foundation
from dis_store.layout import Layout
from dis_store.realisations import of_key as records_of_key
from dis_store.records import write_record
from dis_store.sharded import is_directory, sharded_names

MAX_BYTES = 8 << 20
MAX_OF_KEY = 1024
_IS_KNOWN = (
    "SELECT 1 FROM realisations WHERE key = ? UNION SELECT 1 FROM objects WHERE digest = ? LIMIT 1"
)
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def add(foundation: Foundation, key: Digest, data: bytes) -> Digest:
    """Keep a signed document about a key or an object; return its digest. Keeping it twice changes nothing.

    Raises:
        InvalidInputError: There is no such object and no build of the key, the document is too large, or it has too
            many.
    """
    if len(data) > MAX_BYTES:
        raise InvalidInputError(
            "a signature is not kept", cause=f"it has more than {MAX_BYTES} bytes"
        )
    digest = Digest.of(data)
    # A collection waits for this: it would take the record, and leave the signature of nothing.
    with foundation.locks.sharing(), foundation.locks.placing(key):
        directory = foundation.layout.signatures(key)
        path = directory / f"{digest}.json"
        if foundation.index.value(_IS_KNOWN, (key, key)) is None:
            raise InvalidInputError(
                "a signature is not kept",
                cause=f"no build of the key {key} is recorded, and no object is called so",
            )
        if _read(path) == data:
            return digest
        if is_full(foundation.layout, key):
            raise InvalidInputError(
                "a signature is not kept", cause=f"the key {key} has {MAX_OF_KEY} already"
            )
        # Imported here: nobody who only reads needs it.
        from dis_store.durability import make_directory

        make_directory(foundation.layout.room("signatures"), lasting=True)
        write_record(foundation, path, data)
    return digest


def is_full(layout: Layout, key: Digest) -> bool:
    """Tell whether a key or an object has as many signed documents as are kept."""
    return len(_names(layout.signatures(key))) >= MAX_OF_KEY


def of_key(layout: Layout, key: Digest) -> dict[Digest, bytes]:
    """Return the signed documents about a key or an object, by digest, in its order, without those that are damaged."""
    found: dict[Digest, bytes] = {}
    directory = layout.signatures(key)
    for name in _names(directory):
        data = _read(directory / name)
        if data is not None and name == f"{Digest.of(data)}.json":
            found[Digest(name.removesuffix(".json"))] = data
    return found


def about_objects(
    foundation: Foundation, objects: Collection[Digest]
) -> dict[Digest, dict[Digest, bytes]]:
    """Return the signed documents about each of some objects and about the builds that gave it, by digest."""
    found: dict[Digest, dict[Digest, bytes]] = {}
    for directory in _directories(foundation.layout):
        with suppress(InvalidInputError):  # a name that is no digest
            key = Digest(directory.name)
            records = records_of_key(foundation, key)
            given = {key, *(each for record in records for each in record.outputs.values())}
            documents = of_key(foundation.layout, key)
            for each in given.intersection(objects) if documents else ():
                found.setdefault(each, {}).update(documents)
    return found


def damaged(layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield the name and what is wrong, of each signature that is not what its name says."""
    for directory in _directories(layout):
        for name in _names(directory):
            data = _read(directory / name)
            if data is None:
                yield f"{directory.name}/{name}", "it cannot be read, or is no file"
            elif name != f"{Digest.of(data)}.json":
                yield f"{directory.name}/{name}", "its name is not its digest"


def path_of(layout: Layout, name: str) -> Path:
    """Return the file of the signature that `damaged` calls so."""
    return layout.room("signatures") / name[:2] / name


def of_nothing(layout: Layout, subjects: Collection[Digest]) -> tuple[Path, ...]:
    """Return the files of signatures that are about none of these keys and objects."""
    return tuple(
        directory / name
        for directory in _directories(layout)
        if directory.name not in subjects
        for name in _names(directory)
    )


def remove(paths: tuple[Path, ...]) -> None:
    """Delete signatures, and the directories that they leave empty."""
    for path in paths:
        path.unlink(missing_ok=True)
    for directory in {path.parent for path in paths}:
        if is_directory(directory) and not any(directory.iterdir()):
            directory.rmdir()


def _directories(layout: Layout) -> Iterator[Path]:
    room = layout.room("signatures")
    if is_directory(room):
        yield from filter(is_directory, sharded_names(room))


def _names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory)) if is_directory(directory) else []  # noqa: PTH208 - names


def _read(path: Path) -> bytes | None:
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with open(descriptor, "rb", closefd=False) as stream:
            data = stream.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    return data if len(data) <= MAX_BYTES else None
