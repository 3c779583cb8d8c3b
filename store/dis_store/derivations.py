"""Derivations as the store keeps them: canonical JSON under its own digest, and a table of what came out."""

from collections.abc import Mapping, Sequence
from typing import Any

from dis_store import canonical_json, strict_json
from dis_store.digest import Digest
from dis_store.errors import IntegrityError, InvalidInputError
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
        data = layout.derivation(digest).read_bytes()
    except FileNotFoundError as error:
        raise IntegrityError(f"the derivation {digest} is not in the store") from error
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
    foundation: Foundation, derivation: Digest, outputs: Mapping[str, Digest]
) -> None:
    """Enter what a derivation evaluated to into the derived table, in place of what was there.

    Raises:
        IntegrityError: An output is not in the store.
    """
    for output in outputs.values():
        foundation.require(output)
    if outputs_of(foundation, derivation) != outputs:
        with foundation.index.transaction() as transaction:
            enter_outputs(transaction, derivation, outputs)


def enter_outputs(
    transaction: Transaction, derivation: Digest, outputs: Mapping[str, Digest]
) -> None:
    """Write what a derivation evaluated to, in place of what was there."""
    transaction.execute("DELETE FROM derivation_outputs WHERE derivation = ?", (derivation,))
    transaction.execute_many(
        "INSERT INTO derivation_outputs(derivation, name, object) VALUES (?, ?, ?)",
        ((derivation, name, output) for name, output in outputs.items()),
    )


def outputs_of(foundation: Foundation, derivation: Digest) -> dict[str, Digest]:
    """Return what the derived table says of a derivation; empty if nothing."""
    rows = foundation.index.query(
        "SELECT name, object FROM derivation_outputs WHERE derivation = ? ORDER BY name",
        (derivation,),
    )
    return {name: Digest(output) for name, output in rows}


def _is_known(foundation: Foundation, digest: Digest, data: bytes) -> bool:
    known = foundation.index.value("SELECT 1 FROM derivations WHERE digest = ?", (digest,))
    try:
        return known is not None and foundation.layout.derivation(digest).read_bytes() == data
    except FileNotFoundError:
        return False
