"""Where in a JSON text each member is written, for messages about it."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dis_derivations.manifest import json_pointer

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+', re.DOTALL)


@dataclass(frozen=True)
class Position:
    """A place in a text; both counts begin at 1."""

    line: int
    column: int


def find_position(text: str, pointer: str) -> Position | None:
    """Return where the valid JSON `text` has `pointer`: its key in an object, itself in a list."""
    offset = _offsets(text).get(pointer)
    if offset is None:
        return None
    line_start = text.rfind("\n", 0, offset) + 1
    return Position(line=text.count("\n", 0, offset) + 1, column=offset - line_start + 1)


def _offsets(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    words = _TOKEN.finditer(text)
    _walk(next(words), "", words, found)
    return found


def _walk(
    word: re.Match[str], pointer: str, words: Iterator[re.Match[str]], found: dict[str, int]
) -> None:
    found.setdefault(pointer, word.start())
    if word[0] == "{":
        _walk_object(pointer, words, found)
    elif word[0] == "[":
        _walk_list(pointer, words, found)


def _walk_object(pointer: str, words: Iterator[re.Match[str]], found: dict[str, int]) -> None:
    for word in words:
        if word[0] == "}":
            return
        if word[0] == ",":
            continue
        member = json_pointer.child(pointer, json.loads(word[0]))
        found[member] = word.start()
        next(words)  # the colon
        _walk(next(words), member, words, found)


def _walk_list(pointer: str, words: Iterator[re.Match[str]], found: dict[str, int]) -> None:
    index = 0
    for word in words:
        if word[0] == "]":
            return
        if word[0] == ",":
            index += 1
        else:
            _walk(word, json_pointer.child(pointer, index), words, found)
