"""Laying out reports as plain text of a bounded width."""

import json
import re
from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from dis_derivations.comparison.causes.json_changes import ABSENT, Change

if TYPE_CHECKING:
    from dis_derivations.comparison.causes.upstream import Cause

WIDTH = 96
_SHOWN_CHANGES = 6
_SHOWN_VALUE = 40
_SHOWN_REF = 24
# Nothing printable has it, so it can stand for a space at which no line ends.
_KEPT_SPACE = "\u00a0"
_DIGEST = re.compile(r"(sha256:)?([0-9a-f]{12})[0-9a-f]{52}")


def heading(text: str) -> list[str]:
    """Return a section's heading with the empty line before it."""
    return ["", text]


def paragraph(text: str, indent: int = 2, hanging: int = 0) -> list[str]:
    """Return wrapped lines; those after the first are indented by `hanging` more."""
    first, later = " " * indent, " " * (indent + hanging)
    return wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=later, break_on_hyphens=False
    ) or [first.rstrip()]


def table(rows: Sequence[Sequence[str]], indent: int = 2) -> list[str]:
    """Return rows with aligned columns; the last column wraps under itself."""
    columns = len(rows[0])
    widths = [max(len(row[column]) for row in rows) for column in range(columns - 1)]
    lines: list[str] = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        start = " " * indent + "  ".join([*cells, ""])
        rest = wrap(row[-1], max(WIDTH - len(start), 20), break_on_hyphens=False) or [""]
        lines.append((start + rest[0]).rstrip())
        lines.extend(" " * len(start) + line for line in rest[1:])
    return [line.replace(_KEPT_SPACE, " ") for line in lines]


def unbroken(text: str) -> str:
    """Return a text for a table, in which no line of it ends."""
    return text.replace(" ", _KEPT_SPACE)


def causes(reasons: "Iterable[Cause]", *, numbered: bool) -> list[str]:
    """Return causes with the first of their changes, old → new."""
    lines: list[str] = []
    for number, cause in enumerate(reasons, 1):
        mark = f"{number}." if numbered else "-"
        lines += paragraph(f"{mark} {cause.statement}", 2, 3)
        lines += paragraph(f"({cause.effect})", 5, 1) if cause.effect else []
        said = change_lines(cause.changes)
        for line in said[:_SHOWN_CHANGES]:
            lines += paragraph(line, 7, 2)
        if (more := len(said) - _SHOWN_CHANGES) > 0:
            lines += paragraph(f"… and {more} more (--json has all)", 7)
    return lines


def change_lines(changes: Sequence[Change]) -> list[str]:
    """Return a line for each change; one that is the same in several requests is said once."""
    grouped: dict[tuple[str, ...], list[Change]] = {}
    for change in changes:
        field = _request_field(change)
        key: tuple[str, ...] = (change.where, change.name)
        if field is not None:
            key = (change.where, "", field, value_text(change.old), value_text(change.new))
        grouped.setdefault(key, []).append(change)
    return [_group_line(group) for group in grouped.values()]


def _group_line(group: Sequence[Change]) -> str:
    field = _request_field(group[0])
    if len(group) == 1 or field is None:
        return change_text(group[0])
    old, new = value_text(group[0].old), value_text(group[0].new)
    return f"{len(group)} requests {printable(field)}: {old} → {new}"


def _request_field(change: Change) -> str | None:
    """Return the pointer inside a request that a change is about; None for anything else."""
    if change.where != "requests" or not change.name.startswith("/"):
        return None
    _, _, field = change.name[1:].partition("/")
    return f"/{field}"


def change_text(change: Change) -> str:
    """Return one change in a line."""
    if change.where == "tensor" and isinstance(change.new, str) and change.old is not ABSENT:
        rest = change.new.removeprefix(f"{change.old}, ")
        if rest != change.new:
            return (
                f"tensor {printable(change.name)}: {printable(rest)} ({printable(str(change.old))})"
            )
    old, new = value_text(change.old), value_text(change.new)
    return f"{change.where} {printable(change.name)}: {old} → {new}"


def value_text(value: Any) -> str:
    """Return a JSON value, shortened; `--json` has more of it."""
    if value is ABSENT:
        return "(absent)"
    if not isinstance(value, str):
        return shortened(json.dumps(value, ensure_ascii=False), _SHOWN_VALUE)
    if (match := _DIGEST.fullmatch(value)) is not None:
        return f"{match[1] or ''}{match[2]}…"
    return quoted(shortened(value, _SHOWN_VALUE))


def shortened(text: str, length: int) -> str:
    """Return a text of at most `length` characters and a mark where some are left out."""
    return text if len(text) <= length else f"{text[:length]}…"


def called(ref: str) -> str:
    """Return what the user calls a thing; of what is long, as paths may be, the last name."""
    if len(ref) <= _SHOWN_REF:
        return printable(ref)
    name = ref.rstrip("/").rpartition("/")[2]
    return printable(
        f"…/{shortened(name, _SHOWN_REF)}" if "/" in ref else shortened(ref, _SHOWN_REF)
    )


def quoted(text: str) -> str:
    """Return a text in quotes, without anything a terminal would act on."""
    return f'"{printable(text)}"'


def printable(text: str) -> str:
    """Return a text with everything but visible characters and spaces escaped."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def number(value: float | None, dtype: str = "F64") -> str:
    """Return a number with as few digits as tell it from every other number of its dtype."""
    if value is None:
        return "none"
    if dtype != "F32":
        return repr(value)
    import numpy as np

    return str(np.float32(value))


def size(value: float | None) -> str:
    """Return how large a difference is, with four digits: `--json` has all of them."""
    return "none" if value is None else f"{value:.4g}"


def steps(ulp: int | None) -> str:
    """Return a distance in ULP, roughly where it is so large that it only says "far apart"."""
    if ulp is None:
        return "no distance"
    for power, name in ((12, "trillion"), (9, "billion"), (6, "million")):
        if abs(ulp) >= 10 ** (power + 4):
            return f"{ulp:.1e} ULP"
        if abs(ulp) >= 10**power:
            return f"{ulp / 10**power:.1f} {name} ULP"
    return f"{ulp} ULP"


def count(amount: int, noun: str) -> str:
    """Return an amount with its noun, in the plural where it must be."""
    return f"{amount} {noun}{'' if amount == 1 else 's'}"
