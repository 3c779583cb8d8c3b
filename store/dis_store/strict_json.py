"""Reading JSON that others wrote, without the leniency that lets two readers see two documents.

Accepted: UTF-8 without a byte order mark; each key once per object; no NaN or Infinity; integers within ±(2^53-1);
finite floats that are no integers beyond that; no lone surrogates; at most `MAX_DEPTH` levels and `MAX_CONTAINERS`
objects and lists. Everything else is refused with line and column.
"""

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

from dis_store import json_places
from dis_store.errors import InvalidInputError

MAX_DEPTH = 64
# An empty list takes two bytes of text and seventy of memory. A tree manifest of a million entries has a million.
MAX_CONTAINERS = 4_000_000
MAX_SAFE_INTEGER = 2**53 - 1

# The longest safe integer, with its sign. Longer ones are refused unread: int() is quadratic in the digits.
_MAX_INTEGER_CHARACTERS = len(str(-MAX_SAFE_INTEGER))
_SHOWN_CHARACTERS = 24
_START = "line 1, column 1"
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
        InvalidInputError: `data` is not one strict JSON value; the cause begins with line and column.
            `error` may name another class to raise with the same arguments.
    """

    def refuse(place: str, cause: str, hint: str | None = None) -> NoReturn:
        raise error(f"{name} is not valid JSON", cause=f"{place}: {cause}", hint=hint)

    text = _text(data, refuse)
    # The parser tells its hooks no places: they are looked for only when one of them refuses.
    refuse_token = _refusal_of_tokens(text, refuse)
    _check_depth(text, refuse)
    try:
        value = json.loads(
            text,
            object_pairs_hook=lambda pairs: _unique_object(pairs, text, refuse),
            parse_constant=lambda constant: refuse_token(constant, "{} is not a JSON number"),
            parse_int=lambda digits: _integer(digits, refuse_token),
            parse_float=lambda digits: _float(digits, refuse_token),
        )
    except json.JSONDecodeError as failure:
        refuse(json_places.place(text, failure.pos), failure.msg)
    # UTF-8 itself holds no surrogates, so only an escape can have made one.
    if "\\u" in text:
        _check_surrogates(value, text, refuse)
    return value


def _refusal_of_tokens(text: str, refuse: _Refuse) -> _Refuse:
    """Return what refuses a token: its text, and the cause with `{}` for it."""

    def refuse_token(token: str, cause: str) -> NoReturn:
        refuse(json_places.place_of_token(text, token), cause.format(_shortened(token)))

    return refuse_token


def _text(data: bytes, refuse: _Refuse) -> str:
    resave = "save the file as UTF-8 without a byte order mark"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in data[:4]:
        refuse(_START, "it looks like UTF-16 or UTF-32, and must be UTF-8", resave)
    if data.startswith(b"\xef\xbb\xbf"):
        refuse(_START, "it begins with a byte order mark", resave)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as failure:
        before = data[: failure.start].decode("utf-8")
        place = json_places.place(before, len(before))
        refuse(place, f"byte {data[failure.start]:#04x} is not UTF-8", resave)


def _check_depth(text: str, refuse: _Refuse) -> None:
    """Count brackets outside strings before the recursive parser sees them."""
    depth = containers = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        found = match[0]
        if found in ("[", "{"):
            depth += 1
            containers += 1
            if depth > MAX_DEPTH or containers > MAX_CONTAINERS:
                place = json_places.place(text, match.start())
                refuse(place, _too_much(depth))
        elif found in ("]", "}"):
            depth -= 1


def _too_much(depth: int) -> str:
    if depth > MAX_DEPTH:
        return f"it is nested deeper than {MAX_DEPTH} levels"
    return f"it has more than {MAX_CONTAINERS} objects and lists"


def _unique_object(pairs: list[tuple[str, Any]], text: str, refuse: _Refuse) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                place = json_places.place_of_repeated_key(text)
                refuse(place, f"the key {key!r} appears twice in one object", "keep one of the two")
            seen.add(key)
    return result


def _integer(digits: str, refuse: _Refuse) -> int:
    if len(digits) > _MAX_INTEGER_CHARACTERS or abs(int(digits)) > MAX_SAFE_INTEGER:
        refuse(digits, "the integer {} is beyond ±(2^53-1)")
    return int(digits)


def _float(digits: str, refuse: _Refuse) -> float:
    value = float(digits)
    if math.isinf(value):
        refuse(digits, "the number {} is too large for a double")
    # Canonical JSON writes these as integers, which nobody could read back.
    if MAX_SAFE_INTEGER < abs(value) < _EXPONENT_FROM:
        refuse(digits, "the number {} is beyond ±(2^53-1)")
    return value


def _shortened(digits: str) -> str:
    return digits if len(digits) <= _SHOWN_CHARACTERS else f"{digits[:_SHOWN_CHARACTERS]}…"


def _check_surrogates(value: Any, text: str, refuse: _Refuse) -> None:
    try:
        _encode_strings(value)
    except UnicodeEncodeError:
        place = json_places.place_of_half_character(text)
        refuse(place, "a string holds half of a surrogate pair, which is no character")


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
