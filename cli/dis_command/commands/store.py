"""`dis store`: the store itself."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dis_command.amounts import byte_count
from dis_command.command import (
    command,
    job_count,
    jobs_option,
    json_option,
    pass_session,
    ref_argument,
)
from dis_command.lazy_group import LazyCommand, LazyGroup
from dis_command.session import Session
from dis_command.terminal import count_text
from dis_command.verifications import DAMAGED, Wanted, problem_json

if TYPE_CHECKING:
    from dis_store import ReindexReport

_MODULE = "dis_command.commands.store"
_CONTENT = "dis_command.commands.store_content"


@click.group(
    "store",
    cls=LazyGroup,
    examples=("dis store add model/ --name model", "dis store verify --all", "dis store stats"),
    lazy={
        "add": LazyCommand(_CONTENT, "add", "Make objects of files or directories."),
        "export": LazyCommand(
            _CONTENT, "export", "Write objects with all they refer to as one archive."
        ),
        "import": LazyCommand(
            _CONTENT, "import_", "Bring the objects of an archive into the store."
        ),
        "optimise": LazyCommand(
            _CONTENT, "optimise", "Let equal files of the store share their space."
        ),
        "stats": LazyCommand(_CONTENT, "stats", "Count what the store holds."),
        "verify": LazyCommand(
            _MODULE, "verify", "Read objects again and compare them with their digests."
        ),
        "reindex": LazyCommand(_MODULE, "reindex", "Rebuild the index from what is on disk."),
        "path": LazyCommand(_MODULE, "path", "Print where the store is."),
    },
)
def store() -> None:
    """Fill, count, verify and rebuild the store itself."""


@command(
    "verify",
    examples=(
        "dis store verify --all",
        "dis store verify first quickstart.1a2b3c4d",
        "dis store verify --incremental --max-bytes 100G --rate 200M",
        "dis store verify --all --repair --from ~/models",
    ),
)
@ref_argument("refs", "[REF...]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Verify all objects and records.")
@click.option(
    "--incremental", is_flag=True, help="Go on where the last one stopped; then begin again."
)
@click.option(
    "--max-bytes",
    callback=byte_count,
    metavar="BYTES",
    help="With --incremental: stop after so much (100G).",
)
@click.option(
    "--rate", callback=byte_count, metavar="BYTES", help="Read at most so much a second (200M)."
)
@click.option("--repair", "repairs", is_flag=True, help="Make whole what is damaged.")
@click.option(
    "--from",
    "donors",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    metavar="PATH",
    help="With --repair: a file or directory that may have good copies.",
)
@jobs_option
@json_option
@pass_session
def verify(
    session: Session,
    /,
    refs: tuple[str, ...],
    repairs: bool,
    donors: tuple[Path, ...],
    **options: Any,
) -> int:
    """Read objects again and compare them with their digests.

    A REF stands for the object and all that it refers to. Without --repair,
    nothing is changed. The exit code is 4 when anything is not what it must be,
    or with --repair when anything could not be made whole.

    --incremental reads all objects in turn, in as many calls as it takes: each
    goes on where the one before stopped, and looks again at what was damaged.

    --repair takes good copies of files from the store itself, from its
    quarantine, or from --from, and else builds the object again. What is
    damaged moves to quarantine/ in the store; nothing is deleted.
    """
    from dis_command.verifications import print_repair, print_verification, repair, verified

    wanted = Wanted(refs=refs, **options)
    wanted.check()
    if donors and not repairs:
        raise click.UsageError("--from is for --repair")
    with session.open_store(reading=not (repairs or wanted.incremental)) as opened:
        done = verified(session, opened, wanted)
        if repairs and not done.report.ok:
            return print_repair(session, done, repair(session, opened, done.report, donors))
    return print_verification(session, done)


@command("reindex", examples=("dis store reindex",))
@jobs_option
@json_option
@pass_session
def reindex(session: Session, jobs: int | None) -> int:
    """Rebuild the index from what is on disk.

    Reads every file. What is damaged moves to quarantine/ in the store, and the
    exit code is 4 then.
    """
    from dis_command.upkeep import reindexing

    with (
        session.open_store() as opened,
        session.reporting() as reporter,
        reindexing(reporter) as progress,
    ):
        report = opened.reindex(jobs=job_count(jobs), progress=progress)
    session.print_result(
        lambda: {
            "schema_version": 1,
            "objects": len(report.objects),
            "incomplete": [str(digest) for digest in report.incomplete],
            "derivations": report.derivations,
            "realisations": report.realisations,
            "problems": [problem_json(each) for each in report.problems],
            "remedies": list(report.remedies),
        },
        lambda: _reindexed_text(report),
    )
    for remedy in report.remedies:
        session.say(f"hint: {remedy}")
    return DAMAGED if report.problems else 0


@command("path", examples=("dis store path",))
@json_option
@pass_session
def path(session: Session) -> None:
    """Print where the store is."""
    place = str(session.store_path)
    session.print_result(lambda: {"schema_version": 1, "path": place}, lambda: place)


def _reindexed_text(report: "ReindexReport") -> str:
    lines = [str(problem) for problem in report.problems]
    lines += [f"incomplete: {digest}" for digest in report.incomplete]
    records = count_text(report.realisations, "build record")
    return "\n".join([*lines, f"{count_text(len(report.objects), 'object')} and {records} indexed"])
