"""`dis list`: the runs in the store."""

from typing import TYPE_CHECKING, Any

from dis_command.command import command, json_option, pass_session
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.runs.listing import RunSummary
    from dis_store import Store


@command("list", examples=("dis list", "dis list --json"))
@json_option
@pass_session
def list_(session: Session) -> None:
    """List the runs in the store.

    The newest comes first. A run is listed while a root keeps it.
    """
    from dis_derivations.runs.listing import list_runs

    with session.open_store(reading=True) as store:
        runs = list_runs(store)
        session.print_result(
            lambda: [_document(store, run) for run in runs], lambda: _text(runs), paged=True
        )
        store.roots()  # after the good ones were shown, refuses damaged ones
    if not runs and not session.as_json:
        session.say("there are no runs in this store yet; make one: dis realize CONFIG")


def _document(store: "Store", run: "RunSummary") -> dict[str, Any]:
    return {
        "name": run.names[0],
        "names": list(run.names),
        "bundle": str(run.bundle),
        "path": str(store.object_path(run.bundle)),
        "run_id": run.run_id,
        "model": run.model,
        "date": run.date,
        "engine": run.engine,
        "grade": run.grade,
        "artifact_digests_verified": run.verified,
        "size": run.size,
        "problem": run.problem,
    }


def _text(runs: list["RunSummary"]) -> str:
    from dis_command.table import aligned

    return (
        aligned([("NAME", "MODEL", "DATE", "ENGINE", "GRADE", "SIZE"), *map(_row, runs)])
        if runs
        else ""
    )


def _row(run: "RunSummary") -> tuple[str, ...]:
    from dis_command.terminal import size_text

    date = f"{run.date[:10]} {run.date[11:19]}Z" if run.date else "-"
    size = size_text(run.size) if run.problem is None else "-"
    grade = run.grade if run.verified else f"{run.grade}, DIGESTS NOT VERIFIED"
    return (run.names[0], run.model or "-", date, run.engine or "-", grade, size)
