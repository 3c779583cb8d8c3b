"""JSON Pointers (RFC 6901) as strings: `/a/0` is the first item of a document's list `a`."""

from collections.abc import Iterable
from typing import Any

_MISSING = object()
# More digits than any list needs; Python refuses to convert thousands of them.
_INDEX_DIGITS = 18


def from_tokens(tokens: Iterable[str | int]) -> str:
    """Return the pointer that names the member reached through `tokens`."""
    return "".join(f"/{_escape(str(token))}" for token in tokens)


def tokens(pointer: str) -> list[str]:
    """Return the reference tokens of a pointer, unescaped."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def child(pointer: str, token: str | int) -> str:
    """Return the pointer of the member `token` of what `pointer` names."""
    return f"{pointer}/{_escape(str(token))}"


def parent(pointer: str) -> str:
    """Return the pointer of the container; the document is its own."""
    return pointer.rpartition("/")[0]


def is_index(token: str) -> bool:
    """Return whether a token may be the index of a list."""
    return token.isdecimal() and len(token) <= _INDEX_DIGITS


def exists(document: Any, pointer: str) -> bool:
    """Return whether the document has a member of that name."""
    return _find(document, pointer) is not _MISSING


def get(document: Any, pointer: str) -> Any:
    """Return the member, or None where there is none."""
    value = _find(document, pointer)
    return None if value is _MISSING else value


def _find(document: Any, pointer: str) -> Any:
    value = document
    for token in tokens(pointer):
        if isinstance(value, dict):
            value = value.get(token, _MISSING)
        elif isinstance(value, list) and is_index(token) and int(token) < len(value):
            value = value[int(token)]
        else:
            return _MISSING
    return value


def _escape(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")
