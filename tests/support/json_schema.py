"""A judge of documents by that part of JSON Schema which the schemas of dis use."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}
_KNOWN = {
    "$schema", "$defs", "$ref", "title", "type", "properties", "required", "additionalProperties", "items", "enum",
    "const", "anyOf", "pattern", "minimum",
}  # fmt: skip


def faults(document: Any, schema: Mapping[str, Any]) -> list[str]:
    """Return where a document does not follow a schema, and how."""
    return list(_faults(document, schema, schema, "$"))


def _faults(
    value: Any, schema: Mapping[str, Any], top: Mapping[str, Any], at: str
) -> Iterator[str]:
    assert set(schema) <= _KNOWN, f"the judge does not know {set(schema) - _KNOWN}"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        yield from _faults(value, top["$defs"][name], top, at)
        return
    if "anyOf" in schema and all(list(_faults(value, each, top, at)) for each in schema["anyOf"]):
        yield f"{at}: {value!r:.60} follows none of the choices"
    allowed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if allowed is not None and value not in allowed:
        yield f"{at}: {value!r:.60} is none of {allowed}"
    if "type" in schema and not _is(value, schema["type"]):
        yield f"{at}: {value!r:.60} is no {schema['type']}"
        return
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{at}: {value!r:.60} does not fit {schema['pattern']}"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{at}: {value} is too small"
    if isinstance(value, dict):
        yield from _members(value, schema, top, at)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _faults(item, schema.get("items", {}), top, f"{at}[{place}]")


def _members(
    value: dict[str, Any], schema: Mapping[str, Any], top: Mapping[str, Any], at: str
) -> Iterator[str]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{at}: has no {name}"
    for name, item in value.items():
        if name in properties:
            yield from _faults(item, properties[name], top, f"{at}.{name}")
        elif schema.get("additionalProperties") is False:
            yield f"{at}: has the unknown member {name}"


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool) and kind != "boolean":
        return False
    return isinstance(value, _TYPES[kind])
