"""Small files that say something about objects: durable, replaced in one step, read strictly."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dis_store import canonical_json, strict_json
from dis_store.errors import IntegrityError, InvalidInputError
from dis_store.foundation import Foundation

_MODE = 0o444
_SHARD_DIGITS = 2


def write_record(foundation: Foundation, target: Path, data: bytes) -> None:
    """Write a record to its place below the store, whose sub-directories are made as needed.

    A reader, or a crash, sees the old content or the new one.
    """
    # Imported here: reading a record, which is what most calls do, needs neither.
    from dis_store.durability import fsync_directory
    from dis_store.platform_linux import write_all
    from dis_store.writing.work_space import private_file

    _make_parents(target.parent, foundation.top)
    with private_file(foundation.layout.room("tmp")) as (temporary, descriptor):
        write_all(descriptor, data)
        os.fchmod(descriptor, _MODE)
        os.fsync(descriptor)
        try:
            temporary.replace(target)
        except OSError as error:
            # The temporary name means nothing to whoever reads the message.
            raise OSError(error.errno, error.strerror, str(target)) from error
    fsync_directory(target.parent)


def write_records(foundation: Foundation, records: Mapping[Path, bytes]) -> None:
    """Write many records, which costs little more than to write one: all are written before any is waited for."""
    from dis_store.durability import fsync_directory, fsync_file, write_new
    from dis_store.writing.work_space import work_space

    for directory in {target.parent for target in records}:
        _make_parents(directory, foundation.top)
    with work_space(foundation.layout.room("tmp")) as space:
        written = {target: space.fresh() for target in records}
        for target, temporary in written.items():
            write_new(temporary, records[target], wait=False)
        for temporary in written.values():
            fsync_file(temporary)
        for target, temporary in written.items():
            temporary.replace(target)
    for directory in {target.parent for target in records}:
        fsync_directory(directory)


def _make_parents(directory: Path, top: Path) -> None:
    from dis_store.durability import make_directory

    if top not in (directory, directory.parent):
        _make_parents(directory.parent, top)
        # Shards stay; the directory of a key goes with its last record.
        make_directory(directory, lasting=len(directory.name) == _SHARD_DIGITS)


def encode_record(kind: str, version: int, fields: Mapping[str, Any]) -> bytes:
    """Return the bytes of a record: canonical JSON with its type and format."""
    return canonical_json.encode({"type": kind, "format": version, **fields})


def decode_record(
    data: bytes, *, kind: str, version: int, name: str, oldest: int | None = None
) -> dict[str, Any]:
    """Parse a record.

    Args:
        data: Its bytes.
        kind: What it must be.
        version: Its format; the newest one where `oldest` is given.
        name: What messages call it.
        oldest: The oldest format that is read; None where there is only one.

    Raises:
        IntegrityError: It is no strict JSON object of this type and format.
    """
    try:
        document = strict_json.decode(data, name=name)
    except InvalidInputError as error:
        raise IntegrityError(f"{name} is damaged", cause=error.cause) from error
    if not isinstance(document, dict) or document.get("type") != kind:
        raise IntegrityError(f"{name} is damaged", cause=f"it is no {kind} record")
    found = document.get("format")
    if type(found) is not int or not (version if oldest is None else oldest) <= found <= version:
        raise IntegrityError(
            f"{name} cannot be read",
            cause=f"its format is {found!r}, not {version}",
        )
    return document
