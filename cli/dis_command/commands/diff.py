"""`dis diff`: compare the results of two runs, or the weights of two objects, bit for bit."""

from typing import TYPE_CHECKING

import click

from dis_command.command import command, json_option, pass_session, ref_argument
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.comparison.report import DiffReport
    from dis_derivations.comparison.weights_report import WeightsReport
    from dis_derivations.runs.reference import Resolved
    from dis_store import Store


@command(
    "diff",
    examples=(
        "dis diff first second",
        "dis diff runs/a runs/b --json",
        "dis diff first second --strict",
        "dis diff base-model tuned-model",
    ),
)
@ref_argument("ref_a", "A")
@ref_argument("ref_b", "B")
@click.option(
    "--strict",
    is_flag=True,
    help="Ask for the same bundles, provenance included; of weights, for the same files.",
)
@json_option
@pass_session
def diff(session: Session, ref_a: str, ref_b: str, strict: bool) -> int:
    """Compare two runs, or the weights of two objects, bit for bit.

    Prints whether they are the same, where they part, and why. The exit code is
    0 when they are the same, 1 when they differ. Weights are the same when they
    have the same tensors, whatever files these lie in.
    """
    from dis_derivations.runs.reference import resolve

    with session.open_store(reading=True) as store:
        a, b = resolve(store, ref_a), resolve(store, ref_b)
        if a.kind == b.kind == "object":
            return _diff_weights(session, store, a, b, strict=strict)
        return _diff_runs(session, store, a, b, strict=strict)


def _diff_runs(
    session: Session, store: "Store", a: "Resolved", b: "Resolved", *, strict: bool
) -> int:
    from dis_derivations.comparison.diff import diff_bundles
    from dis_derivations.comparison.render_text import render_text

    report: DiffReport = diff_bundles(a.bundle(store), b.bundle(store), store=store)
    session.print_result(report.to_json, lambda: render_text(report), paged=True)
    if strict and report.same and not report.bundles_identical:
        session.say("the results are the same; the bundles differ, which --strict does not allow")
    return 0 if report.answer(strict=strict) else 1


def _diff_weights(
    session: Session, store: "Store", a: "Resolved", b: "Resolved", *, strict: bool
) -> int:
    from dis_derivations.comparison.render_weights import render_weights
    from dis_derivations.comparison.weights_diff import diff_weights, weights_side
    from dis_derivations.runs.reference import place_in_object

    sides = [
        weights_side(store, each.object(), below=place_in_object(store, each.ref), ref=each.ref)
        for each in (a, b)
    ]
    report: WeightsReport = diff_weights(*sides)
    session.print_result(report.to_json, lambda: render_weights(report), paged=True)
    if strict and report.same and not report.same_files:
        session.say("the weights are the same; the files differ, which --strict does not allow")
    return 0 if report.answer(strict=strict) else 1
