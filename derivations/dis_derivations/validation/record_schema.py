"""The JSON Schema of what `dis report --json` prints: the validation record of a run."""

from typing import Any

from dis_derivations.comparison.schema_terms import (
    COUNT,
    DIGEST,
    FLAG,
    SHA256,
    TEXT,
    TEXTS,
    closed,
    document,
    list_of,
    or_null,
)
from dis_derivations.validation.record import RECORD_KIND, SCHEMA_VERSION
from dis_derivations.validation.signatures import ABOUT, STANDINGS

_ANYTHING = {"type": "object"}


def record_schema() -> dict[str, Any]:
    """Return the schema; docs/guides/comparing-runs.md says what the fields mean."""
    return document(
        "Validation record of a run",
        {
            "schema_version": {"const": SCHEMA_VERSION},
            "kind": {"const": RECORD_KIND},
            "name": TEXT,
            "description": TEXT,
            "bundle": or_null(DIGEST),
            "run_id": SHA256,
            "manifest_id": SHA256,
            "lock_id": SHA256,
            "results": DIGEST,
            "requests_digest": DIGEST,
            "grade": TEXT,
            "artifact_digests_verified": FLAG,
            "sequences": COUNT,
            "output_tokens": COUNT,
            "engine": _ANYTHING,
            "platform": closed({"class": TEXT, "facts": _ANYTHING}),
            "hardware": TEXTS,
            "capture": {"type": "object", "additionalProperties": TEXT},
            "parts": list_of(closed({"name": TEXT, "object": DIGEST, "size": or_null(COUNT)})),
            "evidence": list_of(
                closed({"path": TEXT, "size": COUNT, "blake3": DIGEST, "left_out": FLAG})
            ),
            "reproductions": _reproductions(),
            "signatures": list_of(_signature()),
            "commands": list_of(closed({"command": TEXT, "shows": TEXT})),
        },
    )


def _reproductions() -> dict[str, Any]:
    build = {"host": TEXT, "user": TEXT, "finished_at": TEXT, "origin": TEXT, "identical": FLAG}
    return closed(
        {
            "key": or_null(DIGEST),
            "identical": COUNT,
            "builds": COUNT,
            "hosts": TEXTS,
            "records": list_of(closed(build)),
        }
    )


def _signature() -> dict[str, Any]:
    return closed(
        {
            "document": DIGEST,
            "about": {"enum": list(ABOUT)},
            "standing": {"enum": list(STANDINGS)},
            "key": TEXT,
            "account": TEXT,
        }
    )
