"""`dis log`: the log of the build that made a run."""

from typing import TYPE_CHECKING

import click

from dis_command.command import command, json_option, pass_session, ref_argument
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.runs.logs import LogFile


@command("log", examples=("dis log first", "dis log first --run-log"))
@ref_argument()
@click.option(
    "--run-log", is_flag=True, help="Print run_log.json, what the engine recorded, instead."
)
@json_option
@pass_session
def log(session: Session, ref: str, run_log: bool) -> None:
    """Print the log of the build that made a run.

    REF is a run, or the name of a root of something else that was built.
    """
    from dis_derivations.runs.logs import build_logs, run_log_of
    from dis_derivations.runs.reference import resolve

    with session.open_store(reading=True) as store:
        resolved = resolve(store, ref)
        if run_log:
            found = run_log_of(store, resolved)
            session.print_line(found.text.rstrip("\n"))
            return
        logs = build_logs(store, resolved)
    session.print_result(
        lambda: {
            "schema_version": 1,
            "logs": [{"path": each.path, "text": each.text} for each in logs],
        },
        lambda: _text(logs),
        paged=True,
    )


def _text(logs: list["LogFile"]) -> str:
    if len(logs) == 1:
        return logs[0].text
    return "\n".join(f"== {each.path}\n{each.text}" for each in logs)
