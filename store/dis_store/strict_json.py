"""Reading JSON that others wrote, without the leniency that lets two readers see two documents.

Accepted: UTF-8 without a byte order mark; each key once per object; no NaN or Infinity; integers within ±(2^53-1);
finite floats that are no integers beyond that; no lone surrogates; at most `MAX_DEPTH` levels. Everything else is
refused with line and column.
"""

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

from dis_store.errors import InvalidInputError

MAX_DEPTH = 64
MAX_SAFE_INTEGER = 2**53 - 1

# The longest safe integer, with its sign. Longer ones are refused unread: int() is quadratic in the digits.
_MAX_INTEGER_CHARACTERS = len(str(-MAX_SAFE_INTEGER))
_SHOWN_CHARACTERS = 24
# From here on the shortest form of a double has an exponent.
_EXPONENT_FROM = 1e21
# The closing quote is optional: an unterminated string must not be scanned again from each of its quotes.
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)

_Refuse = Callable[..., NoReturn]


def decode(
    data: bytes,
    *,
    name: str,
    error: type[InvalidInputError] | Callable[..., Exception] = InvalidInputError,
) -> Any:
    """Parse `data`, a document that messages call `name`.

    Raises:
        InvalidInputError: `data` is not one strict JSON value; the message has line and column where
            they are known. `error` may name another class to raise with the same arguments.
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
    # UTF-8 itself holds no surrogates, so only an escape can have made one.
    if "\\u" in text:
        _check_surrogates(value, refuse)
    return value


def _text(data: bytes, refuse: _Refuse) -> str:
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


def _check_depth(text: str, refuse: _Refuse) -> None:
    """Count brackets outside strings before the recursive parser sees them."""
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        found = match[0]
        if found in ("[", "{"):
            depth += 1
            if depth > MAX_DEPTH:
                refuse(f"it is nested deeper than {MAX_DEPTH} levels")
        elif found in ("]", "}"):
            depth -= 1


def _unique_object(pairs: list[tuple[str, Any]], refuse: _Refuse) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                refuse(f"the key {key!r} appears twice in one object", "keep one of the two")
            seen.add(key)
    return result


def _integer(digits: str, refuse: _Refuse) -> int:
    if len(digits) > _MAX_INTEGER_CHARACTERS or abs(int(digits)) > MAX_SAFE_INTEGER:
        refuse(f"the integer {_shortened(digits)} is beyond ±(2^53-1)")
    return int(digits)


def _float(digits: str, refuse: _Refuse) -> float:
    value = float(digits)
    if math.isinf(value):
        refuse(f"the number {_shortened(digits)} is too large for a double")
    # Canonical JSON writes these as integers, which nobody could read back.
    if MAX_SAFE_INTEGER < abs(value) < _EXPONENT_FROM:
        refuse(f"the number {_shortened(digits)} is beyond ±(2^53-1)")
    return value


def _shortened(digits: str) -> str:
    return digits if len(digits) <= _SHOWN_CHARACTERS else f"{digits[:_SHOWN_CHARACTERS]}…"


def _check_surrogates(value: Any, refuse: _Refuse) -> None:
    try:
        _encode_strings(value)
    except UnicodeEncodeError:
        refuse("a string holds half of a surrogate pair, which is no character")


def _encode_strings(value: Any) -> None:
    if isinstance(value, str):
        value.encode("utf-8")
    elif isinstance(value, dict):
        for key, item in value.items():
            key.encode("utf-8")
            _encode_strings(item)
    elif isinstance(value, list):
        for item in value:
            _encode_strings(item)
