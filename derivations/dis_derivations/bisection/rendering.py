"""A bisection as text for a terminal."""

from collections.abc import Sequence

from dis_derivations.bisection.laboratory import Experiment
from dis_derivations.bisection.report import Bisection, Held, Plan
from dis_derivations.comparison.causes.json_changes import Change
from dis_derivations.comparison.render_text import identities
from dis_derivations.comparison.text_layout import (
    change_text,
    count,
    heading,
    paragraph,
    printable,
    table,
    value_text,
)

_SHOWN_CHANGES = 2
_OUTCOMES = {"parts": "PARTS", "agrees": "as A", "unresolved": "no such run"}


def render_bisection(report: Bisection) -> str:
    """Return the report as lines of at most `WIDTH` characters where their words allow it, without colour."""
    lines = [
        *identities(report.a, report.b),
        *_answer(report),
        *_differences(report.differences),
        *_held(report.held, report.without_effect),
        *_experiments(report),
    ]
    return "\n".join([*lines, ""])


def render_plan(plan: Plan) -> str:
    """Return what would be done, as text."""
    names = [each.name for each in plan.differences]
    rows = [[_taken(each.taken, names), _state(each.built)] for each in plan.first]
    lines = [
        *identities(plan.a, plan.b),
        *heading(f"Which difference makes the {plan.observable} part?"),
        *paragraph(
            f"{count(len(names), 'difference')} can be varied: about "
            f"{count(plan.usual, 'experiment')} for one guilty one, at most {plan.most}"
        ),
        *_differences(plan.differences),
        *_held(plan.held, plan.without_effect),
        *heading("First experiments (taken from B)"),
        *table(rows),
    ]
    return "\n".join([*lines, ""])


def _state(built: bool | None) -> str:
    if built is None:
        return "no such run"
    return "known" if built else "must be built"


def _answer(report: Bisection) -> list[str]:
    title = {
        "found": f"The {report.observable} part because of",
        "budget spent": "NOT FOUND: the budget is spent",
        "not reproduced": "NOT FOUND: with all of B's differences the outputs are those of A",
        "not buildable": "NOT FOUND: B cannot be built here",
        "nothing to vary": "NOT FOUND: nothing that can be varied here differs",
    }[report.verdict]
    lines = heading(title)
    if report.verdict in ("found", "budget spent"):
        lines += [f"  {printable(name)}" for name in report.guilty]
    if report.verdict == "budget spent":
        lines += paragraph("one or more of these; run it again with a larger --budget to go on")
    if report.verdict in ("not reproduced", "nothing to vary"):
        lines += paragraph(_elsewhere(report))
    if report.verdict == "found" and len(report.guilty) > 1:
        lines += paragraph(
            "together: with one of them left out the outputs are those of A, or there is no such run"
        )
    if report.rest == "agrees":
        lines += paragraph("all other differences together change nothing")
    if report.rest == "parts":
        lines += paragraph("the other differences make the outputs part as well")
    if report.reproduces_a is False:
        lines += paragraph(
            "A's closure gave other outputs here than A has; experiments are held against what it gave here"
        )
    return lines


def _elsewhere(report: Bisection) -> str:
    if report.held:
        return f"the cause is among what is held: {', '.join(each.name for each in report.held)}"
    return "no difference is held either, so a run did not repeat: try dis realize CONFIG --rebuild"


def _differences(found: Sequence[Held]) -> list[str]:
    rows = [
        [str(number), printable(each.name), line]
        for number, each in enumerate(found, 1)
        for line in [_changes(each)]
    ]
    return [*heading("Differences (the most likely first)"), *table(rows)] if rows else []


def _changes(difference: Held) -> str:
    shown = [_change(difference, change) for change in difference.changes[:_SHOWN_CHANGES]]
    more = len(difference.changes) - len(shown)
    return "; ".join(shown) + (f" and {more} more" if more > 0 else "")


def _change(difference: Held, change: Change) -> str:
    if change.name == difference.name:
        return f"{value_text(change.old)} → {value_text(change.new)}"
    return change_text(change)


def _held(held: Sequence[Held], without_effect: Sequence[str]) -> list[str]:
    lines: list[str] = []
    if held:
        rows = [[printable(each.name), f"{each.reason}; {_changes(each)}"] for each in held]
        lines += [*heading("Held (cannot be varied here)"), *table(rows)]
    if without_effect:
        lines += heading("Different, but reaching nothing that the runs are made of")
        lines += paragraph(", ".join(map(printable, without_effect)))
    return lines


def _experiments(report: Bisection) -> list[str]:
    names = [each.name for each in report.differences]
    rows = [[str(number), *_row(each, names)] for number, each in enumerate(report.experiments, 1)]
    title = f"Experiments ({count(report.built, 'generation')} built)"
    return [*heading(title), *table([["#", "from B", "", "outcome", ""], *rows])] if rows else []


def _row(experiment: Experiment, names: Sequence[str]) -> list[str]:
    known = "" if experiment.bundle is None else "known" if experiment.cached else "built"
    return [
        _taken(experiment.taken, names),
        known,
        _OUTCOMES[experiment.outcome],
        printable(experiment.detail),
    ]


def _taken(taken: Sequence[str], names: Sequence[str]) -> str:
    """Return a difference's number where it comes from B, and a dot where it comes from A."""
    return (
        " ".join(
            str(number) if name in taken else "·".rjust(len(str(number)))
            for number, name in enumerate(names, 1)
        )
        or "(nothing)"
    )
