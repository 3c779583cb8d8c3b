"""A validation record as text for a terminal."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dis_derivations.comparison.text_layout import (
    count,
    heading,
    paragraph,
    printable,
    shortened,
    table,
)
from dis_derivations.validation.record import ValidationRecord
from dis_derivations.validation.signatures import Signature

_SHOWN_BUILDS = 12
_SHOWN_SIGNATURES = 24
_SHOWN_VALUE = 200
_LABELS = {
    "run_id": "run id",
    "manifest_id": "manifest id",
    "lock_id": "lock id",
    "requests_digest": "requests",
    "artifact_digests_verified": "digests of files verified",
    "output_tokens": "output tokens",
}


def render_record(record: ValidationRecord) -> str:
    """Return the record as text, without colour."""
    lines = [
        printable(record.name),
        *(paragraph(printable(record.description), 0) if record.description else []),
        *heading("What it is"),
        *_columns(
            [[name, printable(shortened(value, _SHOWN_VALUE))] for name, value in fact_rows(record)]
        ),
        *heading("What it was made of"),
        *_columns([[part.name, part.object, _size(part.size)] for part in record.parts]),
        *heading("Evidence"),
        *_columns(
            [
                [each.path, each.blake3, _size(each.size) + (", left out" if each.left_out else "")]
                for each in record.evidence
            ]
        ),
        *_reproductions(record),
        *heading("Signed documents"),
        *_signatures(record.signatures),
        *heading("To check it, and to build it again"),
        *table([[command.line, command.shows] for command in record.commands]),
    ]
    return "\n".join([*lines, ""])


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows with aligned columns; nothing is broken, since digests are to be copied."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        f"  {'  '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))}".rstrip()
        for row in rows
    ]


def reproduction_text(record: ValidationRecord) -> str:
    """Return how often the results were made, in words."""
    identical, built = record.reproductions
    if not built:
        return "no build of these results is remembered here"
    where = f" on {count(len(record.hosts), 'machine')}" if record.hosts else ""
    return f"{identical} of {count(built, 'build')} made these results{where}"


def fact_rows(record: ValidationRecord) -> list[tuple[str, str]]:
    """Return what identifies a run and what it ran on, as names and values for people; `--json` has them raw."""
    facts = [(_LABELS.get(name, name), _value(value)) for name, value in record.facts.items()]
    engine = {name: value for name, value in record.engine.items() if name != "engine"}
    platform = record.platform["facts"]
    facts.append(("engine", _with(str(record.engine.get("engine")), engine)))
    facts.append(("platform", _with(str(record.platform["class"]), platform)))
    for status in sorted(set(record.capture.values())):
        names = sorted(name for name, each in record.capture.items() if each == status)
        facts.append((status, ", ".join(names)))
    if record.hardware:
        facts.append(("hardware", "; ".join(record.hardware)))
    return facts


def _with(name: str, more: Mapping[str, Any]) -> str:
    return f"{name}, {_value(more)}" if more else name


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=dict)


def _size(size: int | None) -> str:
    return "not in this store" if size is None else f"{size:,} bytes"


def _reproductions(record: ValidationRecord) -> list[str]:
    rows = [
        [
            build.finished_at,
            printable(build.host) or "-",
            build.origin,
            "the same" if build.identical else "OTHER RESULTS",
        ]
        for build in record.builds[:_SHOWN_BUILDS]
    ]
    more = len(record.builds) - len(rows)
    return [
        *heading("Reproductions"),
        f"  {reproduction_text(record)}",
        *(table(rows) if rows else []),
        *([f"  … and {more} more (--json has all)"] if more > 0 else []),
    ]


def signatures_text(signatures: Sequence[Signature]) -> str:
    """Return who vouches for the results, in words."""
    names = sorted(
        {each.key for each in signatures if (each.standing, each.about) == ("trusted", "claim")}
    )
    if names:
        return f"{count(len(names), 'trusted key')} signed these results: {', '.join(names)}"
    return "no trusted key signed these results" if signatures else "none"


def _signatures(signatures: Sequence[Signature]) -> list[str]:
    rows = [
        [each.about, each.document[:12], printable(each.account)]
        for each in signatures[:_SHOWN_SIGNATURES]
    ]
    more = len(signatures) - len(rows)
    return [
        f"  {printable(signatures_text(signatures))}",
        *(_columns(rows) if rows else []),
        *([f"  … and {more} more (--json has all)"] if more > 0 else []),
    ]
