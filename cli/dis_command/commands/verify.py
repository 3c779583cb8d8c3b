"""`dis verify`: grade two runs against each other."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dis_command import completion
from dis_command.command import command, force_option, json_option, pass_session, ref_argument
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.comparison.verify_report import VerifyReport


@command(
    "verify",
    examples=(
        "dis verify first second",
        "dis verify --bundle-a runs/a/bundle.json --bundle-b runs/b/bundle.json",
        "dis verify --output-dir reports",
    ),
)
@ref_argument("refs", "[A B]", nargs=-1)
@click.option(
    "--bundle-a", metavar="REF", shell_complete=completion.references, help="The same as A."
)
@click.option(
    "--bundle-b", metavar="REF", shell_complete=completion.references, help="The same as B."
)
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=Path(),
    help="Where the report goes.  [default: the working directory]",
)
@force_option
@json_option
@pass_session
def verify(
    session: Session,
    refs: tuple[str, ...],
    bundle_a: str | None,
    bundle_b: str | None,
    output_dir: Path,
    force: bool,
) -> int:
    """Grade two runs against each other and write a report.

    Without runs, the two newest of the store are taken. Writes
    verify_report.json and verify_summary.txt. The exit code is 0 for the grade
    conformant, else 1.
    """
    from dis_command.references import looking_up
    from dis_derivations.comparison.render_verify import render_verify
    from dis_derivations.comparison.verification import verify_bundles
    from dis_derivations.comparison.verify_report import write_report
    from dis_derivations.runs.reference import objects_of

    chosen = _chosen(refs, bundle_a, bundle_b)
    if chosen is None:
        report = _newest(session)
    else:
        with looking_up(session, chosen) as (store, resolve):
            a, b = map(resolve, chosen)
            at_hand = objects_of(store, (a, b))
            report = verify_bundles(a.bundle(store), b.bundle(store), store=at_hand)
    for path in write_report(report, output_dir, replace=force):
        session.say(f"wrote {path}")
    session.print_result(report.to_json, lambda: render_verify(report))
    return 0 if report.conformant else 1


def _chosen(
    refs: tuple[str, ...], bundle_a: str | None, bundle_b: str | None
) -> tuple[str, str] | None:
    """Return the two runs that the command line names, or None where it names none."""
    named = [ref for ref in (bundle_a, bundle_b) if ref is not None]
    if refs and named:
        raise click.UsageError("A B and --bundle-a --bundle-b are the same, give one of them")
    match (*refs, *named):
        case ():
            return None
        case (a, b):
            return a, b
        case (only,):
            raise click.UsageError(f"two runs are compared, and only {only} is named")
        case _:
            raise click.UsageError("more than two runs are named")


def _newest(session: Session) -> "VerifyReport":
    from dis_derivations.comparison.verification import verify_bundles
    from dis_derivations.runs.bundle_reader import StoredBundle
    from dis_derivations.runs.listing import newest_two

    with session.open_store(reading=True) as store:
        older, newer = newest_two(store)
        session.say(f"comparing the two newest runs: {older.names[0]} and {newer.names[0]}")
        a, b = (StoredBundle(store, each.bundle) for each in (older, newer))
        return verify_bundles(a, b, store=store)
