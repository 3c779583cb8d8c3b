"""`dis store`: the store itself."""

from typing import TYPE_CHECKING, Any

import click

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
from dis_command.terminal import count_text, size_text

if TYPE_CHECKING:
    from dis_store import Problem, ReindexReport, VerificationReport

_MODULE = "dis_command.commands.store"
_CONTENT = "dis_command.commands.store_content"
_DAMAGED = 4


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
    "verify", examples=("dis store verify --all", "dis store verify first quickstart.1a2b3c4d")
)
@ref_argument("refs", "[REF...]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Verify all objects and records.")
@jobs_option
@json_option
@pass_session
def verify(session: Session, refs: tuple[str, ...], everything: bool, jobs: int | None) -> int:
    """Read objects again and compare them with their digests.

    A REF stands for the object and all that it refers to. Nothing is changed.
    The exit code is 4 when anything is not what it must be.
    """
    from dis_command.upkeep import verifying
    from dis_derivations.runs.reference import resolve

    if everything == bool(refs):
        raise click.UsageError("say what to verify: REF..., or --all for everything")
    with session.open_store(reading=True) as opened:
        digests = None
        if refs:
            digests = opened.closure([resolve(opened, ref).object() for ref in refs])
        with session.reporting() as reporter, verifying(reporter) as progress:
            report = opened.verify(digests, jobs=job_count(jobs), progress=progress)
    session.print_result(lambda: _verified(report), lambda: _verified_text(report))
    for remedy in report.remedies:
        session.say(f"hint: {remedy}")
    return 0 if report.ok else _DAMAGED


@command("reindex", examples=("dis store reindex",))
@jobs_option
@json_option
@pass_session
def reindex(session: Session, jobs: int | None) -> int:
    """Rebuild the index from what is on disk.

    Reads every file. What is damaged moves to quarantine/ in the store, and the
    exit code is 4 then.
    """
    with session.open_store() as opened:
        report = opened.reindex(jobs=job_count(jobs))
    session.print_result(
        lambda: {
            "schema_version": 1,
            "objects": len(report.objects),
            "incomplete": [str(digest) for digest in report.incomplete],
            "derivations": report.derivations,
            "realisations": report.realisations,
            "problems": [_problem(each) for each in report.problems],
            "remedies": list(report.remedies),
        },
        lambda: _reindexed_text(report),
    )
    for remedy in report.remedies:
        session.say(f"hint: {remedy}")
    return _DAMAGED if report.problems else 0


@command("path", examples=("dis store path",))
@json_option
@pass_session
def path(session: Session) -> None:
    """Print where the store is."""
    place = str(session.store_path)
    session.print_result(lambda: {"schema_version": 1, "path": place}, lambda: place)


def _verified(report: "VerificationReport") -> dict[str, Any]:
    return {
        "schema_version": 1,
        "ok": report.ok,
        "objects": report.objects,
        "files": report.files,
        "bytes": report.bytes,
        "problems": [_problem(each) for each in report.problems],
        "remedies": list(report.remedies),
    }


def _problem(problem: "Problem") -> dict[str, Any]:
    return {
        "kind": problem.kind,
        "subject": problem.subject,
        "path": problem.path,
        "detail": problem.detail,
    }


def _verified_text(report: "VerificationReport") -> str:
    lines = [str(problem) for problem in report.problems]
    read = f"{count_text(report.objects, 'object')}, {count_text(report.files, 'file')}"
    found = (
        count_text(len(report.problems), "problem") if report.problems else "all as they must be"
    )
    return "\n".join([*lines, f"{read}, {size_text(report.bytes)} read: {found}"])


def _reindexed_text(report: "ReindexReport") -> str:
    lines = [str(problem) for problem in report.problems]
    lines += [f"incomplete: {digest}" for digest in report.incomplete]
    records = count_text(report.realisations, "build record")
    return "\n".join([*lines, f"{count_text(len(report.objects), 'object')} and {records} indexed"])
