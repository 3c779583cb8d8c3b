"""Questions about objects that the index answers alone."""

from dis_store.digest import Digest
from dis_store.errors import InvalidInputError, UnknownReferenceError
from dis_store.foundation import Foundation, missing
from dis_store.index import Index

SHORTEST_PREFIX = 8
_LONGEST_PREFIX = 64
_HEX = frozenset("0123456789abcdef")


def objects(index: Index) -> list[Digest]:
    """Return all objects, in the order of their registration."""
    return [Digest(found) for (found,) in index.query("SELECT digest FROM objects ORDER BY id")]


def references(index: Index, digest: Digest) -> list[Digest]:
    """Return the objects that an object refers to directly."""
    rows = index.query(
        "SELECT target.digest FROM objects AS source JOIN refs ON refs.referrer = source.id"
        " JOIN objects AS target ON target.id = refs.reference WHERE source.digest = ?"
        " ORDER BY target.digest",
        (digest,),
    )
    return [Digest(found) for (found,) in rows]


def referrers(index: Index, digest: Digest) -> list[Digest]:
    """Return the objects that refer directly to an object."""
    rows = index.query(
        "SELECT source.digest FROM objects AS target JOIN refs ON refs.reference = target.id"
        " JOIN objects AS source ON source.id = refs.referrer WHERE target.digest = ?"
        " ORDER BY source.digest",
        (digest,),
    )
    return [Digest(found) for (found,) in rows]


def closure(foundation: Foundation, digests: list[Digest]) -> list[Digest]:
    """Return objects with all that they refer to, references first.

    Raises:
        IntegrityError: One of them is not in the store.
    """
    from dis_store import closures

    for digest in digests:
        if not foundation.is_valid(digest):
            raise missing(digest)
    return closures.closure(digests, lambda each: references(foundation.index, each))


def size(index: Index, digest: Digest) -> int:
    """Return the bytes of an object's own files.

    Raises:
        IntegrityError: The object is not in the store.
    """
    found = index.value("SELECT size FROM objects WHERE digest = ?", (digest,))
    if found is None:
        raise missing(digest)
    return int(found)


def find(index: Index, prefix: str) -> Digest:
    """Return the only object whose digest begins with `prefix`.

    Raises:
        InvalidInputError: The prefix is malformed, or it fits no object or several.
    """
    if not SHORTEST_PREFIX <= len(prefix) <= _LONGEST_PREFIX or not _HEX.issuperset(prefix):
        raise InvalidInputError(
            f"{prefix[:80]!r} is no digest of an object",
            cause=f"a prefix is {SHORTEST_PREFIX} to {_LONGEST_PREFIX} lowercase hexadecimal digits",
        )
    # "g" sorts after every hexadecimal digit.
    rows = index.query(
        "SELECT digest FROM objects WHERE digest >= ? AND digest < ? ORDER BY digest LIMIT 5",
        (prefix, f"{prefix}g"),
    )
    if not rows:
        raise UnknownReferenceError(f"no object has a digest that begins with {prefix}")
    if len(rows) > 1:
        found = ", ".join(digest for (digest,) in rows)
        raise InvalidInputError(
            f"several objects have digests that begin with {prefix}", cause=found
        )
    return Digest(rows[0][0])
