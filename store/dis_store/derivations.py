"""Derivations as the store keeps them: canonical JSON under its own digest, and a table of what came out."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dis_store import canonical_json, strict_json
from dis_store.digest import Digest
from dis_store.environment import reading
from dis_store.errors import IntegrityError, InvalidInputError, MissingObjectError
from dis_store.foundation import Foundation
from dis_store.index import Transaction
from dis_store.layout import Layout
from dis_store.records import write_records


def add(foundation: Foundation, records: Sequence[bytes]) -> list[Digest]:
    """Keep derivations, from garbage collection too while this process lives; return their digests.

    Raises:
        InvalidInputError: One of them is not canonical JSON of a derivation.
    """
    digests = [Digest.of(data) for data in records]
    foundation.temp_roots.add(digests)
    missing = {
        digest: data
        for digest, data in zip(digests, records, strict=True)
        if not _is_known(foundation, digest, data)
    }
    for data in missing.values():
        check(data)
    if missing:
        # Two processes may write the same ones: each puts whole files in place, and they are equal.
        with foundation.locks.sharing():
            write_records(
                foundation,
                {foundation.layout.derivation(digest): data for digest, data in missing.items()},
            )
            with foundation.index.transaction() as transaction:
                transaction.execute_many(
                    "INSERT OR IGNORE INTO derivations(digest) VALUES (?)",
                    ((digest,) for digest in missing),
                )
    return digests


def protect(foundation: Foundation, digests: Sequence[Digest]) -> list[Digest]:
    """Keep derivations from garbage collection while this process lives; return those that are not there."""
    foundation.temp_roots.add(digests)
    rows = foundation.index.query(
        "SELECT digest FROM derivations WHERE digest IN (SELECT value FROM json_each(?))",
        (json.dumps(digests),),
    )
    known = {digest for (digest,) in rows}
    return [
        digest
        for digest in digests
        if digest not in known or not foundation.layout.derivation(digest).is_file()
    ]


def check(data: bytes) -> dict[str, Any]:
    """Return the derivation that `data` encodes.

    Raises:
        InvalidInputError: `data` is not canonical JSON of a derivation.
    """
    document = strict_json.decode(data, name="a derivation")
    if not isinstance(document, dict) or document.get("type") != "derivation":
        raise InvalidInputError("a derivation is malformed", cause="its type says something else")
    if canonical_json.encode(document) != data:
        raise InvalidInputError(
            "a derivation is malformed", cause="it is not canonical JSON (RFC 8785)"
        )
    return document


def read(layout: Layout, digest: Digest) -> bytes:
    """Return the bytes of a derivation.

    Raises:
        IntegrityError: It is not in the store, or damaged.
    """
    try:
        with reading(layout.derivation(digest)):
            data = layout.derivation(digest).read_bytes()
    except FileNotFoundError as error:
        raise MissingObjectError(f"the derivation {digest} is not in the store") from error
    if Digest.of(data) != digest:
        raise IntegrityError(
            f"the derivation {digest} is damaged", cause=f"its BLAKE3 is {Digest.of(data)}"
        )
    return data


def inputs(layout: Layout, digest: Digest) -> list[Digest]:
    """Return the derivations that a derivation names as its inputs; none if it is gone or damaged."""
    try:
        named = check(read(layout, digest)).get("inputs", {})
        return [Digest(each["derivation"]) for each in named.values() if "derivation" in each]
    except (IntegrityError, InvalidInputError, AttributeError, TypeError):
        return []


def remember_outputs(
    foundation: Foundation, evaluated: Mapping[Digest, Mapping[str, Digest]]
) -> None:
    """Enter what derivations evaluated to into the derived table, in place of what was there.

    Raises:
        IntegrityError: An output is not in the store.
    """
    for output in {output for outputs in evaluated.values() for output in outputs.values()}:
        foundation.require(output)
    known = outputs_of(foundation, evaluated)
    new = {each: outputs for each, outputs in evaluated.items() if known.get(each) != outputs}
    if new:
        with foundation.index.transaction() as transaction:
            transaction.execute_many(
                "DELETE FROM derivation_outputs WHERE derivation = ?", ((each,) for each in new)
            )
            for derivation, outputs in new.items():
                enter_outputs(transaction, derivation, outputs)


def enter_outputs(
    transaction: Transaction, derivation: Digest, outputs: Mapping[str, Digest]
) -> None:
    """Write what a derivation evaluated to, except for outputs that the table knows already."""
    transaction.execute_many(
        "INSERT OR IGNORE INTO derivation_outputs(derivation, name, object) VALUES (?, ?, ?)",
        ((derivation, name, output) for name, output in outputs.items()),
    )


def outputs_of(
    foundation: Foundation, derivations: Collection[Digest]
) -> dict[Digest, dict[str, Digest]]:
    """Return what the derived table says of derivations, in one query; what it does not know is absent."""
    rows = foundation.index.query(
        "SELECT derivation, name, object FROM derivation_outputs"
        " WHERE derivation IN (SELECT value FROM json_each(?)) ORDER BY derivation, name",
        (json.dumps(list(derivations)),),
    )
    outputs: dict[Digest, dict[str, Digest]] = {}
    for derivation, name, output in rows:
        outputs.setdefault(Digest(derivation), {})[name] = Digest(output)
    return outputs


def _is_known(foundation: Foundation, digest: Digest, data: bytes) -> bool:
    known = foundation.index.value("SELECT 1 FROM derivations WHERE digest = ?", (digest,))
    try:
        return known is not None and foundation.layout.derivation(digest).read_bytes() == data
    except FileNotFoundError:
        return False
