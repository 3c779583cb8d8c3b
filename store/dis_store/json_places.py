"""Where in a JSON text a reader met what it refuses: a second look, taken only when there is something to refuse.

The text is valid JSON up to the place that is looked for, since a parser has come that far.
"""

import json
import re
from collections.abc import Iterator

# The closing quote is optional, so that a string that never ends cannot be taken for something else.
# Compiled when a document is refused: every command loads this module, and most never look for a place.
_PIECE = r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}:,]|[^\s\[\]{}:,"]+'


def place(text: str, offset: int) -> str:
    """Return an offset as people count: `line L, column C`, both from 1."""
    line_start = text.rfind("\n", 0, offset) + 1
    return f"line {text.count(chr(10), 0, offset) + 1}, column {offset - line_start + 1}"


def place_of_token(text: str, token: str) -> str:
    """Return the place of the first number or constant that is written as `token`."""
    return next(
        (
            place(text, match.start())
            for match in re.finditer(_PIECE, text, re.DOTALL)
            if match[0] == token
        ),
        place(text, 0),
    )


def place_of_repeated_key(text: str) -> str:
    """Return the place of the key that its object has already, in the first object to end that has such a key."""
    return place(text, next(_repeated_keys(text), 0))


def _repeated_keys(text: str) -> Iterator[int]:
    """Yield, as objects end, where each of them repeats a key for the first time."""
    open_objects: list[tuple[set[str], list[int]]] = []
    string: re.Match[str] | None = None
    for match in re.finditer(_PIECE, text, re.DOTALL):
        found = match[0]
        if found == ":" and string is not None:
            keys, repeated = open_objects[-1]
            key = json.loads(string[0])
            if key in keys:
                repeated.append(string.start())
            keys.add(key)
        elif found == "{":
            open_objects.append((set(), []))
        elif found == "}":
            yield from open_objects.pop()[1][:1]
        string = match if found.startswith('"') else None


def place_of_half_character(text: str) -> str:
    """Return the place of the first string that holds half of a surrogate pair."""
    for match in re.finditer(_PIECE, text, re.DOTALL):
        if match[0].startswith('"') and "\\u" in match[0]:
            try:
                json.loads(match[0]).encode("utf-8")
            except UnicodeEncodeError:
                return place(text, match.start())
    return place(text, 0)
