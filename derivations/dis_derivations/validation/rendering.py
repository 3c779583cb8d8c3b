"""A validation record as text for a terminal."""

import json
from collections.abc import Sequence

from dis_derivations.comparison.text_layout import (
    count,
    heading,
    paragraph,
    printable,
    shortened,
    table,
)
from dis_derivations.validation.record import ValidationRecord

_SHOWN_BUILDS = 12
_SHOWN_VALUE = 200


def render_record(record: ValidationRecord) -> str:
    """Return the record as text, without colour."""
    lines = [
        printable(record.name),
        *(paragraph(printable(record.description), 0) if record.description else []),
        *heading("What it is"),
        *_columns(_facts(record)),
        *heading("What it was made of"),
        *_columns([[part.name, part.object, _size(part.size)] for part in record.parts]),
        *heading("Evidence"),
        *_columns([[each.path, each.blake3, _size(each.size)] for each in record.evidence]),
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


def _facts(record: ValidationRecord) -> list[list[str]]:
    facts = [[name, _value(value)] for name, value in record.facts.items()]
    facts += [["engine", _value(dict(record.engine))], ["platform", _value(dict(record.platform))]]
    facts += [["capture", _value(dict(record.capture))]]
    facts += [["hardware", printable("; ".join(record.hardware))]] if record.hardware else []
    return facts


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return printable(shortened(text, _SHOWN_VALUE))


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


def _signatures(signatures: Sequence[str]) -> list[str]:
    return [f"  {each} (not verified here)" for each in signatures] or ["  none"]
