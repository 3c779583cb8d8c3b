"""Verifying a store and repairing what is found, and saying what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dis_command.command import job_count
from dis_command.session import Session
from dis_command.terminal import count_text, size_text

if TYPE_CHECKING:
    from dis_store import Digest, Problem, RepairReport, RoundReport, Store, VerificationReport

DAMAGED = 4
# What a repair does not touch.
_NOT_REPAIRED = frozenset({"damaged root", "tree without row", "incomplete"})


@dataclass(frozen=True)
class Wanted:
    """What the command line asks to verify, and how."""

    refs: tuple[str, ...]
    everything: bool
    incremental: bool
    max_bytes: int | None
    rate: int | None
    jobs: int | None

    def check(self) -> None:
        """Refuse what contradicts itself.

        Raises:
            click.UsageError: It does.
        """
        if [bool(self.refs), self.everything, self.incremental].count(True) != 1:
            raise click.UsageError(
                "say what to verify: REF..., --all for everything, or --incremental"
            )
        if self.max_bytes is not None and not self.incremental:
            raise click.UsageError("--max-bytes is for --incremental")
        if self.rate == 0:
            raise click.UsageError("--rate must be more than 0")


@dataclass(frozen=True)
class Verified:
    """What a verification found; with `round`, it was a part of one."""

    report: "VerificationReport"
    round: "RoundReport | None" = None


def verified(session: Session, opened: "Store", wanted: Wanted) -> Verified:
    """Verify what is wanted."""
    from dis_command.upkeep import verifying
    from dis_store import Pace

    pace = None if wanted.rate is None else Pace(wanted.rate)
    jobs = job_count(wanted.jobs)
    digests = _digests(opened, wanted.refs)
    with session.reporting() as reporter, verifying(reporter) as progress:
        if wanted.incremental:
            found = opened.verify_onwards(
                jobs=jobs, max_bytes=wanted.max_bytes, pace=pace, progress=progress
            )
            return Verified(found.verification, found)
        return Verified(opened.verify(digests, jobs=jobs, pace=pace, progress=progress))


def _digests(opened: "Store", refs: Sequence[str]) -> "list[Digest] | None":
    from dis_derivations.runs.reference import resolve

    if not refs:
        return None
    return opened.closure([resolve(opened, ref).object() for ref in refs])


def repair(
    session: Session, opened: "Store", report: "VerificationReport", donors: Sequence[Path]
) -> "RepairReport":
    """Make whole what can be made whole, from copies or by building it again."""
    from dis_derivations.realisation.restoration import restore

    with session.reporting() as reporter:
        return opened.repair(
            report.problems,
            donors=donors,
            rebuild=lambda digest: restore(opened, digest, reporter=reporter),
        )


def print_verification(session: Session, done: Verified) -> int:
    """Print what was found; return the exit code."""
    session.print_result(lambda: _json(done), lambda: "\n".join(_lines(done)))
    for remedy in done.report.remedies:
        session.say(f"hint: {remedy}")
    return 0 if done.report.ok else DAMAGED


def print_repair(session: Session, done: Verified, repaired: "RepairReport") -> int:
    """Print what was found and what was done about it; return the exit code."""
    from dis_store.integrity.verification import remedies

    left = {
        problem.kind
        for problem in done.report.problems
        if problem.kind in _NOT_REPAIRED and problem.subject not in repaired.roots
    }
    whole = not repaired.lost and not left
    session.print_result(
        lambda: {
            **_json(done),
            "repair": {
                "ok": whole,
                "repaired": list(map(str, repaired.repaired)),
                "rebuilt": list(map(str, repaired.rebuilt)),
                "records": list(repaired.records),
                "lost": [
                    {"subject": loss.subject, "reason": loss.reason} for loss in repaired.lost
                ],
            },
        },
        lambda: "\n".join([*_lines(done), *_repair_lines(repaired)]),
    )
    for remedy in remedies(left):
        session.say(f"hint: {remedy}")
    if repaired.lost:
        session.say(
            "hint: what is lost is out of service, in quarantine/ of the store; make it again: dis realize CONFIG;"
            " or repair once more with good copies: --from PATH"
        )
    return 0 if whole else DAMAGED


def problem_json(problem: "Problem") -> dict[str, Any]:
    """Return what a document says of one problem."""
    return {
        "kind": problem.kind,
        "subject": problem.subject,
        "path": problem.path,
        "detail": problem.detail,
    }


def _json(done: Verified) -> dict[str, Any]:
    report = done.report
    document = {
        "schema_version": 1,
        "ok": report.ok,
        "objects": report.objects,
        "files": report.files,
        "bytes": report.bytes,
        "problems": [problem_json(each) for each in report.problems],
        "remedies": list(report.remedies),
    }
    if done.round is not None:
        document |= {"round": done.round.round.number, "left": done.round.left}
    return document


def _lines(done: Verified) -> list[str]:
    report = done.report
    read = f"{count_text(report.objects, 'object')}, {count_text(report.files, 'file')}"
    found = (
        count_text(len(report.problems), "problem") if report.problems else "all as they must be"
    )
    lines = [*map(str, report.problems), f"{read}, {size_text(report.bytes)} read: {found}"]
    return [*lines, _round_line(done.round)] if done.round is not None else lines


def _round_line(found: "RoundReport") -> str:
    if found.finished:
        return f"round {found.round.number} is finished"
    return f"round {found.round.number}: {count_text(found.left, 'object')} left"


def _repair_lines(repaired: "RepairReport") -> list[str]:
    made = [
        *(f"repaired: {digest}" for digest in repaired.repaired),
        *(f"built again: {digest}" for digest in repaired.rebuilt),
        *(f"written again: {name}" for name in repaired.records),
        *(f"lost: {loss.subject} ({loss.reason})" for loss in repaired.lost),
    ]
    count = len(repaired.repaired) + len(repaired.rebuilt) + len(repaired.records)
    lost = f", {len(repaired.lost)} lost" if repaired.lost else ""
    return [*made, f"{count_text(count, 'thing')} made whole{lost}"]
