"""A comparison of two documents or objects as text for a terminal."""

from dis_derivations.comparison.documents.report import ChangeGroup, DocumentsReport
from dis_derivations.comparison.text_layout import (
    change_text,
    count,
    heading,
    paragraph,
    printable,
    table,
    value_text,
)

_SHOWN_CHANGES = 24
_SHOWN_LINES = 24


def render_documents(report: DocumentsReport) -> str:
    """Return the report as lines of at most `WIDTH` characters where names allow it, without colour."""
    sides = table([["A", value_text(report.a)], ["B", value_text(report.b)]], indent=0)
    verdict = "THE SAME" if report.same else "DIFFERENT"
    lines = [*sides, *heading(f"{report.subject.capitalize()}: {verdict}")]
    if report.identical:
        lines.append("  in every byte")
    # What is understood comes before the names of files.
    files = [group for group in report.groups if group.kind.startswith("files")]
    for group in report.groups:
        lines += [] if group in files else _group(group)
    if report.packages is not None:
        from dis_derivations.comparison.render_packages import packages_section

        lines += packages_section(report.packages)
    for group in files:
        lines += _group(group)
    for text in report.texts:
        lines += heading(f"What differs in {printable(text.subject)}")
        lines += [f"  {printable(line)}" for line in text.lines[:_SHOWN_LINES]]
        more = len(text.lines) - _SHOWN_LINES + text.left_out
        lines += [f"  … and {count(more, 'more line')} (--json has more)"] if more > 0 else []
    return "\n".join([*lines, ""])


def _group(group: ChangeGroup) -> list[str]:
    note = "" if group.matters else " (cannot change a result)"
    name = group.kind if "." in group.kind else group.kind.replace("_", " ").capitalize()
    lines = heading(f"{name}{note}")
    for change in group.changes[:_SHOWN_CHANGES]:
        lines += paragraph(change_text(change), 2, 2)
    more = len(group.changes) - _SHOWN_CHANGES
    return lines + ([f"  … and {more} more (--json has all)"] if more > 0 else [])
