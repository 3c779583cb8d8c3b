"""The JSON Schema of a lock, for editors and other tools; `Lock.decode` is what decides."""

from typing import Any

from dis_derivations.lock.document import ALGORITHM, KIND, SCHEMA_VERSION

_SHA256 = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
_TEXT = {"type": "string", "minLength": 1}


def lock_schema() -> dict[str, Any]:
    """Return the schema; docs/internals/formats/lock.md says what the fields mean."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Lock",
        **_closed(
            {
                "schema_version": {"const": SCHEMA_VERSION},
                "kind": {"const": KIND},
                "manifest_id": _SHA256,
                "generated_at": {"type": "string", "format": "date-time"},
                "lock_algorithm": {"const": ALGORITHM},
                "artifacts": {"type": "array", "items": _artifact()},
                "sources": {"type": "object", "additionalProperties": {"type": "object"}},
                "lock_id": _SHA256,
            }
        ),
    }


def _artifact() -> dict[str, Any]:
    return _closed(
        {
            "name": _TEXT,
            "path": _TEXT,
            "size": {"type": "integer", "minimum": 0},
            "digest": _SHA256,
            "executable": {"type": "boolean"},
            "digest_source": {"enum": ["computed", "published"]},
            "retrieval": {"type": "object"},
        }
    )


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that has these fields, all of them, and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
