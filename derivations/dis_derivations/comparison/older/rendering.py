"""A comparison with a run of the older tool as text for a terminal."""

from dis_derivations.comparison.older.report import OlderReport, Subject
from dis_derivations.comparison.older.side import Side
from dis_derivations.comparison.render_divergence import where_tokens_part
from dis_derivations.comparison.render_text import notes
from dis_derivations.comparison.text_layout import (
    called,
    change_text,
    heading,
    paragraph,
    printable,
    table,
)

_SHOWN_CHANGES = 6
_SHOWN_FIELDS = 12


def render_older(report: OlderReport, refs: tuple[str, str]) -> str:
    """Return the report as text, without colour. `refs` are what the user calls A and B."""
    subjects = {
        standing: [each for each in report.subjects if each.standing == standing]
        for standing in ("differ", "declared alike", "unknown")
    }
    lines = [
        *table([_identity("A", refs[0], report.a), _identity("B", refs[1], report.b)], indent=0),
        *heading(f"Results: {report.verdict.upper()}"),
        *table([[name, each.finding, each.account] for name, each in report.observed.items()]),
        *where_tokens_part(report.alignment, report.divergences),
        *_differing(report, subjects["differ"]),
        *_listed("Declared alike, which shows nothing", subjects["declared alike"]),
        *_listed("Unknown", subjects["unknown"]),
        *notes(report.notes),
    ]
    return "\n".join([*lines, ""])


def _identity(label: str, ref: str, side: Side) -> list[str]:
    return [
        label,
        called(ref),
        printable(side.name),
        printable(side.model) or "(model not named)",
        f"run {printable(side.run_id[:12])}",
        f"made by {side.tool}" + (f", engine {side.engine}" if side.engine else ""),
    ]


def _differing(report: OlderReport, subjects: list[Subject]) -> list[str]:
    lines = heading("What differs upstream") if subjects or report.manifest else []
    for subject in subjects:
        said = f"- {subject.name}" + (f" ({subject.account})" if subject.account else "")
        lines += paragraph(said, 2, 2)
        lines += _changes([change_text(each) for each in subject.changes], _SHOWN_CHANGES)
    if report.manifest:
        lines += paragraph("- fields of the manifests", 2, 2)
        lines += _changes([change_text(each.change) for each in report.manifest], _SHOWN_FIELDS)
    return lines


def _changes(said: list[str], shown: int) -> list[str]:
    lines = [line for each in said[:shown] for line in paragraph(each, 5, 2)]
    more = len(said) - shown
    return lines + (paragraph(f"… and {more} more (--json has all)", 5) if more > 0 else [])


def _listed(title: str, subjects: list[Subject]) -> list[str]:
    if not subjects:
        return []
    return [*heading(title), *table([[each.name, each.account] for each in subjects])]
