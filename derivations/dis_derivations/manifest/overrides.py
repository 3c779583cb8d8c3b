"""The command line's `--set a.b=value`: one member of the effective manifest, replaced."""

import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dis_derivations.manifest import json_pointer
from dis_store import strict_json
from dis_store.errors import InvalidInputError

_HINT = "write --set path.to.field=value, for example --set inference.n_prompts=4"


@dataclass(frozen=True)
class Override:
    """One parsed `--set`.

    Attributes:
        text: As the user wrote it.
        pointer: The member it replaces.
        value: Its new value.
    """

    text: str
    pointer: str
    value: Any


def parse_override(text: str) -> Override:
    """Return what `path=value` asks for.

    The value is strict JSON where it parses as that, and else a string.
    The path is dotted (`inference.requests.0.id`) or a JSON Pointer (`/runtime/env/A.B`), for names
    that hold dots.

    Raises:
        InvalidInputError: There is no `=`, a part of the path is empty, or it is not UTF-8.
    """
    path, equals, value = text.partition("=")
    if not equals:
        raise InvalidInputError(f"--set {text!r} has no '=' and no value", hint=_HINT)
    _check_utf8(text)
    pointer = path if path.startswith("/") else json_pointer.from_tokens(path.split("."))
    parts = json_pointer.tokens(pointer)
    if not all(parts) or len(parts) > strict_json.MAX_DEPTH:
        raise InvalidInputError(f"--set {text!r} names no field", hint=_HINT)
    if parts[0] == "x_base_manifest":
        raise InvalidInputError(
            "--set cannot change x_base_manifest",
            cause="overrides apply to the manifest after its bases are merged",
            hint="write a manifest of your own that names the other base",
        )
    return Override(text=text, pointer=pointer, value=_value(value))


def _check_utf8(text: str) -> None:
    """Refuse what the command line holds of bytes that are no text."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"--set {text!r} is not UTF-8", hint="set the terminal, or the script, to UTF-8"
        ) from error


def _value(text: str) -> Any:
    try:
        return strict_json.decode(text.encode("utf-8"), name="the value")
    except InvalidInputError:
        return text


def apply_override(document: dict[str, Any], override: Override) -> dict[str, Any]:
    """Return a copy of `document` with one member replaced.

    Objects that are missing on the way are made. An index may be at most the length of its list:
    then it appends.

    Raises:
        InvalidInputError: The path leads through something that has no members, or past the end of
            a list.
    """
    result = copy.deepcopy(document)
    container: Any = result
    parts = json_pointer.tokens(override.pointer)
    for depth, (part, following) in enumerate(pairwise(parts)):
        container = _step(container, part, [] if following == "0" else {}, override, parts[:depth])
    _assign(container, parts[-1], override, parts[:-1])
    return result


def _step(container: Any, part: str, empty: Any, override: Override, walked: list[str]) -> Any:
    """Return the member `part`, made as `empty` where it is absent or null."""
    key = _key(container, part, override, walked)
    if isinstance(container, list):
        if key == len(container):
            container.append(empty)
    elif container.get(key) is None:
        container[key] = empty
    return container[key]


def _assign(container: Any, part: str, override: Override, walked: list[str]) -> None:
    key = _key(container, part, override, walked)
    if isinstance(container, list) and key == len(container):
        container.append(copy.deepcopy(override.value))
    else:
        container[key] = copy.deepcopy(override.value)


def _key(container: Any, part: str, override: Override, walked: list[str]) -> Any:
    """Return `part` as a key of `container`, an index of it where it is a list."""
    if isinstance(container, dict):
        return part
    where = ".".join(walked)
    if not isinstance(container, list):
        raise InvalidInputError(
            f"--set {override.text!r} leads nowhere",
            cause=f"{where} is a single value, without members",
        )
    if not json_pointer.is_index(part) or int(part) > len(container):
        raise InvalidInputError(
            f"--set {override.text!r} leads nowhere",
            cause=f"{where} is a list of {len(container)}, and {part!r:.80} is no index of it",
            hint=f"indices go from 0; {len(container)} appends",
        )
    return int(part)
