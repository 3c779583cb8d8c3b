"""`dis diff`: compare the results of two runs bit for bit."""

import click

from dis_command.command import command, json_option, pass_session, ref_argument
from dis_command.session import Session


@command(
    "diff",
    examples=(
        "dis diff first second",
        "dis diff runs/a runs/b --json",
        "dis diff first second --strict",
    ),
)
@ref_argument("ref_a", "A")
@ref_argument("ref_b", "B")
@click.option("--strict", is_flag=True, help="Ask for the same bundles, provenance included.")
@json_option
@pass_session
def diff(session: Session, ref_a: str, ref_b: str, strict: bool) -> int:
    """Compare the results of two runs bit for bit.

    Prints whether they are the same, where they part, and why. The exit code is
    0 when they are the same, 1 when they differ.
    """
    from dis_derivations.comparison.diff import diff_bundles
    from dis_derivations.comparison.render_text import render_text
    from dis_derivations.runs.reference import resolve

    with session.open_store(reading=True) as store:
        report = diff_bundles(
            resolve(store, ref_a).bundle(store), resolve(store, ref_b).bundle(store), store=store
        )
    session.print_result(report.to_json, lambda: render_text(report), paged=True)
    if strict and report.same and not report.bundles_identical:
        session.say("the results are the same; the bundles differ, which --strict does not allow")
    return 0 if report.answer(strict=strict) else 1
