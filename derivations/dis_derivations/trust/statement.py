"""In-toto statements (v1): that a predicate holds of subjects, which are named by digests."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dis_store import canonical_json, strict_json
from dis_store.errors import InvalidInputError

TYPE = "https://in-toto.io/Statement/v1"
OLD_TYPE = "https://in-toto.io/Statement/v0.1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
MAX_PAYLOAD_BYTES = 1 << 22
_FIELDS = {"_type", "predicate", "predicateType", "subject"}
_DIGEST = re.compile(r"[0-9a-f]{16,256}")


@dataclass(frozen=True)
class Subject:
    """What a statement is about: a name, and digests by the names of their algorithms, in lowercase hex."""

    name: str
    digest: Mapping[str, str]


@dataclass(frozen=True)
class Statement:
    """A statement. What its predicate means is for whoever knows the type of it."""

    subjects: tuple[Subject, ...]
    predicate_type: str
    predicate: Mapping[str, Any]


def encode(subjects: Sequence[Subject], predicate_type: str, predicate: Mapping[str, Any]) -> bytes:
    """Return a statement as canonical JSON (RFC 8785)."""
    return canonical_json.encode(
        {
            "_type": TYPE,
            "subject": [{"name": each.name, "digest": dict(each.digest)} for each in subjects],
            "predicateType": predicate_type,
            "predicate": dict(predicate),
        }
    )


def decode(payload: bytes, *, name: str, old: bool = False) -> Statement:
    """Parse a statement.

    Args:
        payload: The bytes that were signed.
        name: What messages call it.
        old: Whether a statement of version 0.1 will do, which images of others still have.

    Raises:
        InvalidInputError: It is none.
    """
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise InvalidInputError(
            f"{name} is refused", cause=f"it has more than {MAX_PAYLOAD_BYTES} bytes"
        )
    document = strict_json.decode(payload, name=name)
    if not isinstance(document, dict) or set(document) != _FIELDS:
        raise InvalidInputError(
            f"{name} is no in-toto statement",
            cause=f"it must have exactly {', '.join(sorted(_FIELDS))}",
        )
    if document["_type"] != TYPE and not (old and document["_type"] == OLD_TYPE):
        raise InvalidInputError(
            f"{name} is no in-toto statement of a known version",
            cause=f"its _type is {document['_type']!r}",
        )
    subjects, predicate = document["subject"], document["predicate"]
    if not isinstance(subjects, list) or not subjects:
        raise InvalidInputError(f"{name} is about nothing", cause="it has no subject")
    if not isinstance(document["predicateType"], str) or not isinstance(predicate, dict):
        raise InvalidInputError(
            f"{name} is malformed", cause="a predicate is an object, its type is a string"
        )
    return Statement(
        tuple(_subject(each, name) for each in subjects), document["predicateType"], predicate
    )


def _subject(value: Any, name: str) -> Subject:
    digest = value.get("digest") if isinstance(value, dict) else None
    if not isinstance(digest, dict) or not digest:
        raise InvalidInputError(f"{name} is malformed", cause="a subject has no digest")
    label = value.get("name", "")
    for algorithm, hexadecimal in digest.items():
        if not isinstance(hexadecimal, str) or not _DIGEST.fullmatch(hexadecimal):
            raise InvalidInputError(
                f"{name} is malformed",
                cause=f"the digest {algorithm!r} of a subject is not lowercase hexadecimal",
            )
    if not isinstance(label, str):
        raise InvalidInputError(f"{name} is malformed", cause="the name of a subject is no string")
    return Subject(label, digest)
