"""What the schema found, in our words: pydantic's error types become sentences."""

import difflib
import json
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from dis_derivations.manifest import json_pointer
from dis_derivations.manifest.faults import Fault

_KINDS = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
}
_BOUNDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "greater_than": lambda context: f"must be greater than {context['gt']:g}",
    "greater_than_equal": lambda context: f"must be at least {context['ge']:g}",
    "less_than": lambda context: f"must be less than {context['lt']:g}",
    "less_than_equal": lambda context: f"must be at most {context['le']:g}",
}
_QUOTED = re.compile(r"'([^']*)'")
_SHOWN_CHARACTERS = 60


def faults_of(error: ValidationError, schema: type[BaseModel]) -> Iterator[Fault]:
    """Yield one fault for each thing that validation found, in the order of the schema."""
    for details in error.errors(include_url=False):
        yield _fault(details, schema)


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean '…'?` with the nearest known word, or nothing when none is near."""
    nearest = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def _fault(details: ErrorDetails, schema: type[BaseModel]) -> Fault:
    location = details["loc"]
    pointer = json_pointer.from_tokens(location)
    if details["type"] == "missing":
        return Fault(
            json_pointer.parent(pointer), f"has no {str(location[-1])!r}, which is required"
        )
    if details["type"] == "extra_forbidden":
        known = _members(schema, location[:-1])
        return Fault(pointer, f"is not a known field{suggestion(str(location[-1]), known)}")
    return Fault(pointer, _message(details))


def _message(details: ErrorDetails) -> str:
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        allowed = str(context["expected"]).replace("True", "true")
        near = suggestion(value, _QUOTED.findall(allowed)) if isinstance(value, str) else ""
        return f"must be {allowed}, not {_shown(value)}{near}"
    if kind in _KINDS:
        return f"must be {_KINDS[kind]}, not {_shown(value)}"
    if kind == "too_short":
        return "must not be empty"
    if kind in _BOUNDS:
        return f"{_BOUNDS[kind](context)}, not {_shown(value)}"
    return f"has a value that is not allowed here: {_shown(value)}"


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        kind = "an object" if isinstance(value, dict) else "a list"
        return kind if value else f"an empty {kind.split()[1]}"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _members(schema: type[BaseModel], location: Iterable[str | int]) -> list[str]:
    """Return the fields of the block at `location`; an index stays at its list's kind of block."""
    block = schema
    for token in location:
        if isinstance(token, str) and token in block.model_fields:
            inner = next(_blocks_in(block.model_fields[token].annotation), None)
            if inner is None:
                return []
            block = inner
    return list(block.model_fields)


def _blocks_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _blocks_in(argument)
