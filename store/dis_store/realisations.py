"""Records of builds: what came out, from what, where. One record for each build, so that reproductions are data."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from dis_store.derivations import enter_outputs
from dis_store.digest import Digest
from dis_store.errors import DamagedIndexError, IntegrityError, InvalidInputError
from dis_store.foundation import Foundation
from dis_store.records import decode_record, encode_record, write_record

FORMAT = 1
Origin = Literal["built", "ingested", "substituted"]
_BUILD = re.compile(r"[0-9a-f]{8,64}")
_ORIGINS = ("built", "ingested", "substituted")


@dataclass(frozen=True)
class Input:
    """An input of a build: the object, and the key it was realised by, if it was."""

    object: Digest
    key: Digest | None


@dataclass(frozen=True)
class Realisation:
    """One build.

    Attributes:
        key: What the build is remembered by.
        builder: The kind of build.
        outputs: The objects that came out, by name.
        compared: The names of the outputs that a rebuild must reproduce.
        inputs: What went in, by name.
        derivation: The derivation that was built, if there was one.
        platform: Facts about the machine that can change a result; JSON values.
        origin: Built here, ingested from a source, or substituted from another store.
        started_at: UTC, ISO 8601.
        finished_at: UTC, ISO 8601.
        host: The machine.
        user: Who built.
        build: The id of the build, random; filled when the record is added.
        sequence: 1 for the first record of the key in this store, and so on; filled when it is added.
    """

    key: Digest
    builder: str
    outputs: Mapping[str, Digest]
    compared: tuple[str, ...]
    inputs: Mapping[str, Input]
    derivation: Digest | None
    platform: Mapping[str, Any]
    origin: Origin
    started_at: str
    finished_at: str
    host: str
    user: str
    build: str = ""
    sequence: int = 0

    def encode(self) -> bytes:
        """Return the record as it is on disk: canonical JSON."""
        inputs = {
            name: {"object": each.object, "key": each.key} for name, each in self.inputs.items()
        }
        fields = {
            **vars(self),
            "outputs": dict(self.outputs),
            "compared": list(self.compared),
            "inputs": inputs,
            "platform": dict(self.platform),
        }
        return encode_record("realisation", FORMAT, fields)

    @classmethod
    def decode(cls, data: bytes, *, name: str = "a realisation record") -> "Realisation":
        """Parse a record; `Realisation.decode(r.encode()) == r`.

        Raises:
            IntegrityError: `data` is not exactly the encoding of a realisation.
        """
        document = decode_record(data, kind="realisation", version=FORMAT, name=name)
        try:
            realisation = _from_json(document)
            exact = realisation.encode() == data
        except (KeyError, TypeError, ValueError, AttributeError, InvalidInputError) as error:
            raise IntegrityError(
                f"{name} is damaged", cause=f"{type(error).__name__}: {error}"
            ) from error
        if not exact:
            raise IntegrityError(
                f"{name} is damaged", cause="it is not the encoding of what it says"
            )
        return realisation


def _from_json(document: Mapping[str, Any]) -> Realisation:
    if document["origin"] not in _ORIGINS:
        raise ValueError(f"the origin {document['origin']!r} is unknown")
    fields = {key: value for key, value in document.items() if key not in ("type", "format")}
    return Realisation(
        **fields
        | {
            "key": Digest(document["key"]),
            "outputs": {name: Digest(each) for name, each in document["outputs"].items()},
            "compared": tuple(document["compared"]),
            "inputs": {name: _input(each) for name, each in document["inputs"].items()},
            "derivation": _optional(document["derivation"]),
        }
    )


def _input(document: Mapping[str, Any]) -> Input:
    return Input(Digest(document["object"]), _optional(document["key"]))


def _optional(text: str | None) -> Digest | None:
    return None if text is None else Digest(text)


def add(foundation: Foundation, realisation: Realisation) -> Realisation:
    """Record a build; return the record with its build id and sequence.

    A record that already has a build id, because it comes from another store, keeps it; adding it twice
    changes nothing.

    Raises:
        IntegrityError: An output is not in the store, or another build has the id.
        InvalidInputError: The record has no canonical form, or its build id is none.
    """
    if realisation.build and not _BUILD.fullmatch(realisation.build):
        # It becomes the name of a file.
        raise InvalidInputError(f"the build id {realisation.build[:80]!r} is refused")
    for output in realisation.outputs.values():
        foundation.require(output)
    key = realisation.key
    with foundation.locks.sharing(), foundation.locks.placing(key):
        known = of_key(foundation, key)
        for other in known:
            if other.build == realisation.build:
                return _same(other, realisation)
        sequence = 1 + max((each.sequence for each in known), default=0)
        build = realisation.build or os.urandom(16).hex()
        added = replace(realisation, build=build, sequence=sequence)
        _write(foundation, added)
    return added


def _same(known: Realisation, added: Realisation) -> Realisation:
    if replace(added, sequence=known.sequence) != known:
        raise IntegrityError(
            f"the build {added.build} is recorded already",
            cause=f"the record of the key {known.key} says something else",
        )
    return known


def _write(foundation: Foundation, added: Realisation) -> None:
    data = added.encode()
    path = foundation.layout.realisations(added.key) / f"{added.build}.json"
    write_record(foundation, path, data)
    with foundation.index.transaction() as transaction:
        transaction.execute(INSERT, (added.key, added.build, added.sequence, data.decode()))
        if added.derivation is not None:
            # In the same step as the record: each step waits for the disk. A rebuild that came out otherwise is not
            # what the derivation evaluates to, so what is there stays.
            enter_outputs(transaction, added.derivation, added.outputs)


INSERT = "INSERT INTO realisations(key, build, sequence, record) VALUES (?, ?, ?, ?)"


def bytes_of(record: object) -> bytes:
    """Return a record of the index as its file has it.

    Raises:
        DamagedIndexError: On a damaged page it is something else than a text.
    """
    if isinstance(record, str):
        return record.encode()
    raise DamagedIndexError(
        "the index of the store is damaged",
        cause="the record of a build is no text",
        hint="rebuild it: dis store reindex",
    )


def of_key(foundation: Foundation, key: Digest) -> list[Realisation]:
    """Return the records of a key, oldest first."""
    rows = foundation.index.query(
        "SELECT record FROM realisations WHERE key = ? ORDER BY sequence, build", (key,)
    )
    return [Realisation.decode(bytes_of(record)) for (record,) in rows]


def chosen(foundation: Foundation, key: Digest) -> Realisation | None:
    """Return the record whose outputs answer for the key: the oldest with all outputs valid, protected.

    The first stays chosen while its objects are whole. A later one answers only for one that was damaged.
    """
    for realisation in of_key(foundation, key):
        if foundation.protect(realisation.outputs.values()):
            return realisation
    return None


def of_output(foundation: Foundation, digest: Digest) -> list[Realisation]:
    """Return the records of builds that an object came out of, oldest first. Reads every record: not for hot paths."""
    rows = foundation.index.query(
        "SELECT record FROM realisations WHERE instr(record, ?) ORDER BY sequence, build", (digest,)
    )
    found = (Realisation.decode(bytes_of(record)) for (record,) in rows)
    return [each for each in found if digest in each.outputs.values()]
