"""`dis report`: the validation record of one run."""

from functools import partial
from pathlib import Path

import click

from dis_command.command import command, force_option, json_option, pass_session, ref_argument
from dis_command.session import Session


@command(
    "report",
    examples=(
        "dis report first",
        "dis report first --html first.html",
        "dis report runs/quickstart --json",
    ),
)
@ref_argument()
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the record as a page that needs no network.",
)
@force_option
@json_option
@pass_session
def report(session: Session, ref: str, html: Path | None, force: bool) -> None:
    """Write the validation record of a run.

    It says what the run is, what it was made of with sizes and digests, which
    files show it, how many builds made the same results and where, who signed
    them and whether that is to be believed, and which commands check it and
    build it again.
    """
    from dis_command.references import looking_up
    from dis_command.signatories import signatories
    from dis_derivations.runs.output_file import check_place, write_file
    from dis_derivations.validation.gathering import validation_record
    from dis_derivations.validation.rendering import render_record

    if html is not None:
        check_place(html)
    with looking_up(session, [ref]) as (store, resolve):
        record = validation_record(store, resolve(ref), partial(signatories, session))
    if html is not None:
        from dis_derivations.validation.page import record_page

        write_file(html, record_page(record).encode(), replace=force)
        session.say(f"wrote {html}")
    session.print_result(record.to_json, lambda: render_record(record), paged=True)
