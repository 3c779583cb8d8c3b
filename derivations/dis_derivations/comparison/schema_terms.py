"""What the JSON Schemas of reports are made of."""

from collections.abc import Mapping
from typing import Any

DIGEST = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
SHA256 = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
COUNT = {"type": "integer", "minimum": 0}
# What JSON does not have is text: NaN, infinities, and integers beyond 2^53-1.
NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
STEPS = {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^-?[0-9]+$"}]}
TEXTS = {"type": "array", "items": TEXT}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def ref(name: str) -> dict[str, Any]:
    """Return a schema that is elsewhere in the document."""
    return {"$ref": f"#/$defs/{name}"}


def list_of(items: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an array."""
    return {"type": "array", "items": items}


def or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of what may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def closed(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the schema of an object that has these fields, all but the optional ones, and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def document(
    title: str,
    properties: dict[str, Any],
    *,
    optional: tuple[str, ...] = (),
    definitions: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the schema of a document that has these members, and no other.

    Args:
        title: What it is.
        properties: The members.
        optional: Those that may be missing.
        definitions: What `ref` names in it.
    """
    shared = {} if definitions is None else {"$defs": dict(definitions)}
    return {"$schema": DIALECT, "title": title, **closed(properties, optional), **shared}
