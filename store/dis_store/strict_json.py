"""Reading JSON that others wrote, without the leniency that lets two readers see two documents.

Accepted: UTF-8 without a byte order mark; each key once per object; no NaN or Infinity; integers within ±(2^53-1);
finite floats; no lone surrogates; at most `MAX_DEPTH` levels. Everything else is refused with line and column.
"""

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

from dis_store.errors import InvalidInputError

MAX_DEPTH = 64
MAX_SAFE_INTEGER = 2**53 - 1

_STRING_OR_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def decode(data: bytes, *, name: str, error: type[InvalidInputError] | Callable[..., Exception] = InvalidInputError) -> Any:
    """Parse `data`, a document that messages call `name`.

    Raises:
        InvalidInputError: `data` is not one strict JSON value; the message has line and column where they are known.
            `error` may name another class to raise with the same arguments.
    """

    def refuse(cause: str, hint: str | None = None) -> NoReturn:
        raise error(f"{name} is not valid JSON", cause=cause, hint=hint)

    text = _text(data, refuse)
    _check_depth(text, refuse)
    try:
        value = json.loads(
            text,
            object_pairs_hook=lambda pairs: _unique_object(pairs, refuse),
            parse_constant=lambda constant: refuse(f"{constant} is not a JSON number"),
            parse_int=lambda digits: _integer(digits, refuse),
            parse_float=lambda digits: _float(digits, refuse),
        )
    except json.JSONDecodeError as failure:
        refuse(f"line {failure.lineno}, column {failure.colno}: {failure.msg}")
    try:
        text.encode("ascii") if text.isascii() and "\\u" not in text else _reject_surrogates(value)
    except UnicodeEncodeError:
        refuse("a string holds half of a surrogate pair, which is no character")
    return value


def _text(data: bytes, refuse: Callable[..., NoReturn]) -> str:
    resave = "save the file as UTF-8 without a byte order mark"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in data[:4]:
        refuse("it looks like UTF-16 or UTF-32, and must be UTF-8", resave)
    if data.startswith(b"\xef\xbb\xbf"):
        refuse("it begins with a byte order mark", resave)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as failure:
        line = data.count(b"\n", 0, failure.start) + 1
        refuse(f"line {line}: byte {data[failure.start]:#04x} is not UTF-8", resave)


def _check_depth(text: str, refuse: Callable[..., NoReturn]) -> None:
    """Count brackets outside strings before the recursive parser sees them."""
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        token = match[0]
        if token in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                refuse(f"it is nested deeper than {MAX_DEPTH} levels")
        elif token in "]}":
            depth -= 1


def _unique_object(pairs: list[tuple[str, Any]], refuse: Callable[..., NoReturn]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                refuse(f"the key {key!r} appears twice in one object", "keep one of the two")
            seen.add(key)
    return result


def _integer(digits: str, refuse: Callable[..., NoReturn]) -> int:
    if len(digits) > 17 or abs(int(digits)) > MAX_SAFE_INTEGER:
        refuse(f"the integer {digits[:24]}{'…' if len(digits) > 24 else ''} is beyond ±(2^53-1)")
    return int(digits)


def _float(digits: str, refuse: Callable[..., NoReturn]) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        refuse(f"the number {digits[:24]} is too large for a double")
    return value


def _reject_surrogates(value: Any) -> None:
    if isinstance(value, str):
        value.encode("utf-8")
    elif isinstance(value, dict):
        for key, item in value.items():
            key.encode("utf-8")
            _reject_surrogates(item)
    elif isinstance(value, list):
        for item in value:
            _reject_surrogates(item)
