"""What may reach a terminal: colour where it is wanted, and no character of data that could steer it."""

import functools
import re
from collections.abc import Mapping
from typing import TextIO

COLOR_MODES = ("auto", "always", "never")
_KIBI = 1024
_TWO_DIGITS = 0x100

# C0 and C1 controls but newline and tab, marks that reorder text, line separators, halves of surrogate pairs.
_STEERING = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"


@functools.cache
def _steering() -> "re.Pattern[str]":
    # Made when it is first needed: that takes longer than all else that this module does.
    return re.compile(_STEERING)


def printable(text: str) -> str:
    """Return `text` with characters that steer a terminal written as escapes. Newlines and tabs stay."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return _steering().sub(lambda match: _escape(match[0]), text)


def one_line(text: str) -> str:
    """Return `text` as one printable line: newlines and tabs are written as escapes too."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def wants_color(stream: TextIO, mode: str, environment: Mapping[str, str]) -> bool:
    """Return whether a stream is to be coloured.

    `always` and `never` decide. Otherwise `NO_COLOR` wins, then `FORCE_COLOR` and `CLICOLOR_FORCE`, then whether the
    stream is a terminal that can.
    """
    if mode != "auto":
        return mode == "always"
    if environment.get("NO_COLOR"):
        return False
    if any(
        environment.get(name, "0") not in {"", "0"} for name in ("FORCE_COLOR", "CLICOLOR_FORCE")
    ):
        return True
    return environment.get("TERM") != "dumb" and stream.isatty()


def size_text(size: int) -> str:
    """Return a number of bytes for people, with one decimal from KiB on."""
    if size < _KIBI:
        return f"{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        value /= _KIBI
        if value < _KIBI:
            return f"{value:.1f} {unit}"
    return f"{value / _KIBI:.1f} TiB"


def count_text(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 file`, `2 files`."""
    return f"{number} {singular if number == 1 else plural or f'{singular}s'}"


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < _TWO_DIGITS else f"\\u{code:04x}"
