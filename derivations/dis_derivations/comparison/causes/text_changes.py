"""What changed between two texts: excerpts around each change, and the lines of a diff."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from dis_derivations.comparison.sequences import common_prefix

# Around a change; the longest line that is shown whole.
_CONTEXT = 12
_LONGEST = 90
_SHOWN_LINES = 40
# A matcher of lines takes time that grows with the square of their number.
_MATCHED_LINES = 2000
_BETWEEN_BLOCKS = re.compile(r"(?<=\})(?=\{)")


@dataclass(frozen=True)
class TextDiff:
    """The difference between two texts.

    Attributes:
        subject: What the texts are.
        lines: Each begins with `-` (A), `+` (B) or a space (both); long ones are cut to where they differ.
        left_out: How many more lines there are.
    """

    subject: str
    lines: tuple[str, ...]
    left_out: int

    def to_json(self) -> dict[str, Any]:
        """Return the difference as a JSON object."""
        return {"subject": self.subject, "lines": list(self.lines), "left_out": self.left_out}


def text_diff(subject: str, old: str, new: str) -> TextDiff:
    """Return the lines that differ, with one line before and after."""
    lines = list(_lines(_pieces(old), _pieces(new)))
    if not lines and old != new:
        lines = [" (only the ends of lines differ)"]
    return TextDiff(subject, tuple(lines[:_SHOWN_LINES]), max(0, len(lines) - _SHOWN_LINES))


def _pieces(text: str) -> list[str]:
    """Return the lines of a text; a long one falls apart between its blocks, as templates on one line have them."""
    return [
        piece
        for line in text.splitlines()
        for piece in (_BETWEEN_BLOCKS.split(line) if len(line) > _LONGEST else [line])
    ]


def excerpts(old: str, new: str, width: int = _LONGEST) -> tuple[str, str]:
    """Return both texts, cut to where they differ if they are longer than `width` characters."""
    if max(len(old), len(new)) <= width:
        return old, new
    begin = _common(old, new)
    end = _common(old[begin:][::-1], new[begin:][::-1])
    return _cut(old, begin, len(old) - end, width), _cut(new, begin, len(new) - end, width)


def _lines(old: list[str], new: list[str]) -> Iterator[str]:
    old, new = old[:_MATCHED_LINES], new[:_MATCHED_LINES]
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if i > 0:
            yield f" {_short(old[i - 1])}"
        removed, added = old[i:j], new[k:m]
        both = min(len(removed), len(added))
        pairs = [excerpts(*pair) for pair in zip(removed[:both], added[:both], strict=True)]
        yield from (f"-{left}" for left, _ in pairs)
        yield from (f"-{_short(line)}" for line in removed[both:])
        yield from (f"+{right}" for _, right in pairs)
        yield from (f"+{_short(line)}" for line in added[both:])
        if j < len(old):
            yield f" {_short(old[j])}"


def _common(old: str, new: str) -> int:
    return common_prefix(old, new)


def _cut(text: str, begin: int, end: int, width: int) -> str:
    start = max(0, begin - _CONTEXT)
    stop = min(len(text), end + _CONTEXT, start + width)
    return f"{'…' if start else ''}{text[start:stop]}{'…' if stop < len(text) else ''}"


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
