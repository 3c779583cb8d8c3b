"""Write the tables of fields into docs/reference/manifest.md, from the schema and what becomes of each field.

Usage: python docs/manifest_fields.py

A table stands between `<!-- fields: BLOCK... -->` and `<!-- end of fields -->`, and has the fields of the blocks named.
"""

import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import annotated_types
from pydantic import AfterValidator, BaseModel
from pydantic.fields import FieldInfo

from dis_derivations.manifest import text_forms
from dis_derivations.manifest.field_effects import FIELD_EFFECTS, Effect, FieldEffect, row_of
from dis_derivations.manifest.schema import Manifest

PAGE = Path(__file__).parent / "reference" / "manifest.md"
_TABLE = re.compile(r"(?<=<!-- fields: )([\w ]+) -->\n.*?(?=<!-- end of fields -->)", re.DOTALL)
_HEAD = "| Field | Type and allowed values | Default | Meaning | |\n|---|---|---|---|---|\n"
_CHECKED_TEXTS = {
    text_forms.check_filled: "string, not empty",
    text_forms.check_name: "name, without `/`",
    text_forms.check_file_path: "relative path",
    text_forms.check_digest: "digest",
    text_forms.check_image: "`NAME@sha256:…` or `NAME:TAG`",
    text_forms.check_capability: 'string such as `"8.0"`',
    text_forms.check_timestamp: "RFC 3339 time",
    text_forms.check_date: "date, `YYYY-MM-DD`",
    text_forms.check_directory_template: "path with `${run_id}`, `${manifest_name}`",
}
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", Any: "any"}


@dataclass(frozen=True)
class SchemaField:
    """A field of the schema that holds no block.

    Attributes:
        path: Dotted, the items of lists marked by `[]`.
        kind: Its type, in words.
        default: `required`, a JSON value, or a dash where there is none.
    """

    path: str
    kind: str
    default: str


def schema_fields(block: type[BaseModel] = Manifest, prefix: str = "") -> Iterator[SchemaField]:
    """Yield the fields below a block, in the order of the schema."""
    annotations = typing.get_type_hints(block, include_extras=True)
    for name, field in block.model_fields.items():
        inner = next(_blocks_in(annotations[name]), None)
        if inner is None:
            path, kind = prefix + name, _kind(annotations[name])
            yield SchemaField(path, kind, _default(field))
        else:
            is_list = "tuple" in str(field.annotation)
            yield from schema_fields(inner, f"{prefix}{name}{'[]' if is_list else ''}.")


def table(blocks: list[str]) -> str:
    """Return the table of some blocks, as Markdown."""
    effects = {effect.path: effect for effect in FIELD_EFFECTS}
    rows: dict[str, str] = {}
    for field in schema_fields():
        path = row_of(field.path)
        if path.partition(".")[0] in blocks and path not in rows:
            rows[path] = _row(path, field, effects[path])
    return _HEAD + "".join(rows.values())


def rewritten(page: str) -> str:
    """Return the page with its tables made anew."""
    return _TABLE.sub(lambda found: f"{found[1]} -->\n{table(found[1].split())}", page)


def _row(path: str, field: SchemaField, effect: FieldEffect) -> str:
    # A dataset's source is a block for the schema, and one thing for people.
    kind, default = (
        ("path, or a source", "required")
        if path == "inference.dataset.source"
        else (field.kind, field.default)
    )
    return f"| `{path}` | {kind} | {default} | {effect.meaning} | {_said(effect)} |\n"


def _said(effect: FieldEffect) -> str:
    if not effect.refusal:
        return effect.effect
    refused = " ".join(filter(None, ("refused", effect.when)))
    first = "" if effect.effect is Effect.REFUSED else f"{effect.effect}; "
    return f"{first}{refused}: “{effect.refusal}”"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return "-" if field.default is None else f"`{json.dumps(field.default)}`"


def _kind(annotation: Any) -> str:
    """Return a type in words; a field that may be null is described as if it may not."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _annotated(arguments[0], arguments[1:])
    if origin is Literal:
        return ", ".join(f"`{json.dumps(value).strip(chr(34))}`" for value in arguments)
    if origin in {typing.Union, types.UnionType}:
        (kind,) = (_kind(each) for each in arguments if each is not type(None))
        return kind
    if origin is tuple:
        return _list_of(_kind(arguments[0]).removesuffix(", not empty"))
    if origin is not None and issubclass(origin, Mapping):
        return "map of strings" if arguments == (str, str) else "object"
    return _PLAIN[annotation]


def _annotated(base: Any, marks: tuple[Any, ...]) -> str:
    bounds: list[str] = []
    for mark in marks:
        if isinstance(mark, AfterValidator) and mark.func in _CHECKED_TEXTS:
            return _CHECKED_TEXTS[mark.func]
        if isinstance(mark, FieldInfo):
            extra = mark.json_schema_extra
            if isinstance(extra, dict) and "const" in extra:
                return f"`{json.dumps(extra['const'])}`"
            if isinstance(extra, dict) and "anyOf" in extra:
                return "path, or an object"
            bounds += [_bound(each) for each in mark.metadata]
    return " ".join([_kind(base), *filter(None, [" and ".join(filter(None, bounds))])])


def _bound(mark: object) -> str:
    match mark:
        case annotated_types.Gt(gt=limit):
            return f"> {limit}"
        case annotated_types.Ge(ge=limit):
            return f"≥ {limit}"
        case annotated_types.Le(le=limit):
            return f"≤ {limit}"
        case annotated_types.MinLen():
            return "(not empty)"
        case _:
            return ""


def _list_of(kind: str) -> str:
    if kind.startswith("`"):  # words of which each item is one
        return f"list of {kind}"
    word, space, rest = kind.partition(" ")
    return "list" if word == "any" else f"list of {word}s{space}{rest}"


def _blocks_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _blocks_in(argument)


def main() -> None:
    """Rewrite the page."""
    PAGE.write_text(rewritten(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
