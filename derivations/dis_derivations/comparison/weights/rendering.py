"""A comparison of two sets of weights as text for a terminal."""

from collections.abc import Sequence

from dis_derivations.comparison.tensors.differences import Differences
from dis_derivations.comparison.text_layout import count, heading, number, printable, table
from dis_derivations.comparison.weights.changes import form_text, percent
from dis_derivations.comparison.weights.report import WeightsReport, WeightsSide

_SHOWN = 12

_WAYS = {
    "shards": "the tensors lie in other files",
    "file names": "the files have other names",
    "headers": "the headers of the files differ: metadata, order or padding",
}


def render_weights(report: WeightsReport) -> str:
    """Return the report as lines of at most `WIDTH` characters where names allow it, without colour."""
    sides = table([_side("A", report.a), _side("B", report.b)], indent=0)
    return "\n".join([*sides, *_verdict(report), *_tensors(report), *_others(report), ""])


def _side(label: str, side: WeightsSide) -> list[str]:
    weights = side.weights
    where = f"object {side.object[:12]}" + (f" {printable(side.below)}" if side.below else "")
    return [
        label,
        where,
        f"weights {weights.digest[:12]}",
        f"{count(len(weights.tensors), 'tensor')} in {count(len(weights.files), 'file')}",
    ]


def _verdict(report: WeightsReport) -> list[str]:
    changes = report.changes
    if not report.same:
        differing = f"{changes.differing} of {count(changes.compared, 'tensor')}"
        said = f"{differing} differ, {percent(changes.share)} of the bytes"
        return [*heading("Weights: DIFFERENT"), f"  {said}"]
    ways = [f"  {_WAYS[way]}" for way in changes.arrangement]
    if report.same_files:
        ways = ["  in the same files, byte for byte"]
    return [*heading("Weights: THE SAME"), *ways]


def _tensors(report: WeightsReport) -> list[str]:
    changes = report.changes
    changed = [
        [printable(a.name), _account(found) if found else f"{form_text(a)} → {form_text(b)}"]
        for (a, b), found in zip(changes.changed, report.found, strict=True)
    ]
    renamed = [[printable(a.name), f"→ {printable(b.name)}"] for a, b in changes.renamed]
    return [
        *_section("Other values", changed),
        *_section("The same bytes under other names", renamed),
        *_section(
            "Only in A", [[printable(each.name), form_text(each)] for each in changes.removed]
        ),
        *_section("Only in B", [[printable(each.name), form_text(each)] for each in changes.added]),
    ]


def _account(found: Differences) -> str:
    said = f"{found.differing} of {count(found.compared, 'element')}"
    if found.first is not None and found.first.a is None:
        return f"{said}, {count(found.bits, 'bit')}"
    if found.nan:
        said += f", {found.nan} with NaN"
    return f"{said}, largest difference {number(found.max_abs)}, {found.max_ulp or 0} ULP"


def _others(report: WeightsReport) -> list[str]:
    return _section("Other files that differ", [[printable(path)] for path in report.other_files])


def _section(title: str, rows: Sequence[list[str]]) -> list[str]:
    if not rows:
        return []
    more = len(rows) - _SHOWN
    said = [f"  … and {more} more (--json has all)"] if more > 0 else []
    return [*heading(title), *table(rows[:_SHOWN]), *said]
