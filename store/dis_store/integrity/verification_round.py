"""Verification in pieces: a round through all objects that goes on where it stopped.

The record of the round is a small file of the store. It is a note and no promise: a lost one only begins a new round.
No clock is asked, so that a wrong one can make no object look verified.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dis_store.digest import Digest
from dis_store.errors import DisError
from dis_store.foundation import Foundation
from dis_store.integrity.inspection import Problem
from dis_store.integrity.pace import Pace
from dis_store.integrity.verification import (
    Progress,
    VerificationReport,
    all_objects,
    problems_of_records,
    verify,
)
from dis_store.records import decode_record, encode_record, write_record

FORMAT = 1
_KIND = "verification-round"
_NAME = "verification.json"
# After so many bytes, seconds or objects the record is written: what an interruption can cost, but for a larger object.
_STEP_BYTES = 1 << 30
_STEP_SECONDS = 30
_STEP_OBJECTS = 1000


@dataclass(frozen=True)
class Round:
    """How far a round has come.

    Attributes:
        number: 1 for the first round of the store.
        after: The last object that was verified, in the order of digests; None at the start.
        objects: How many were verified.
        bytes: How many bytes were read.
        damaged: The objects that were found damaged in this round and the one before; each call looks at them again.
    """

    number: int = 1
    after: Digest | None = None
    objects: int = 0
    bytes: int = 0
    damaged: tuple[Digest, ...] = ()


@dataclass(frozen=True)
class RoundReport:
    """What one call did.

    Attributes:
        verification: What was looked at in this call, and found.
        round: How far the round has come with it.
        left: How many objects of the round remain; 0 when it is finished.
    """

    verification: VerificationReport
    round: Round
    left: int

    @property
    def finished(self) -> bool:
        """Whether the round is over."""
        return self.left == 0


def verify_onwards(
    foundation: Foundation,
    *,
    jobs: int,
    max_bytes: int | None = None,
    pace: Pace | None = None,
    progress: Progress | None = None,
) -> RoundReport:
    """Go on with the round, or begin the next one; see `Store.verify_onwards`."""
    state = read_round(foundation)
    waiting = [each for each in sorted(all_objects(foundation)) if each > (state.after or "")]
    again = _look_again(foundation, state, jobs, pace)
    reports = [again]
    state = replace(state, damaged=_damaged(again))
    done = 0
    for batch in _batches(foundation, waiting, _step(max_bytes, pace)):
        if max_bytes is not None and sum(report.bytes for report in reports) >= max_bytes:
            break
        report = verify(foundation, batch, jobs=jobs, pace=pace, progress=progress)
        reports.append(report)
        done += len(batch)
        state = replace(
            state,
            after=batch[-1],
            objects=state.objects + len(batch),
            bytes=state.bytes + report.bytes,
            damaged=tuple(sorted({*state.damaged, *_damaged(report)})),
        )
        _write(foundation, state)
    left = len(waiting) - done
    records: tuple[Problem, ...] = ()
    if not left:
        records = tuple(problems_of_records(foundation))
        _write(foundation, Round(number=state.number + 1, damaged=state.damaged))
    return RoundReport(_combined(reports, records), state, left)


def read_round(foundation: Foundation) -> Round:
    """Return how far the round has come; the start of the first one where nothing is known."""
    try:
        document = decode_record(
            (foundation.top / _NAME).read_bytes(), kind=_KIND, version=FORMAT, name=_NAME
        )
        after = document["after"]
        return Round(
            number=int(document["number"]),
            after=None if after is None else Digest(after),
            objects=int(document["objects"]),
            bytes=int(document["bytes"]),
            damaged=tuple(map(Digest, document["damaged"])),
        )
    except (FileNotFoundError, DisError, KeyError, TypeError, ValueError):
        return Round()


def _write(foundation: Foundation, state: Round) -> None:
    write_record(
        foundation, foundation.top / _NAME, encode_record(_KIND, FORMAT, dict(vars(state)))
    )


def _look_again(
    foundation: Foundation, state: Round, jobs: int, pace: Pace | None
) -> VerificationReport:
    """Verify what was damaged: it may have been repaired, or collected."""
    there = [each for each in state.damaged if foundation.has_row(each)]
    return verify(foundation, there, jobs=jobs, pace=pace)


def _damaged(report: VerificationReport) -> tuple[Digest, ...]:
    return tuple(Digest(each) for each in dict.fromkeys(p.subject for p in report.problems))


def _step(max_bytes: int | None, pace: Pace | None) -> int:
    """Return the bytes of a step: a call that reads little must not read a step of a call that reads much."""
    limits = [_STEP_BYTES]
    if max_bytes is not None:
        limits.append(max_bytes)
    if pace is not None:
        limits.append(int(pace.rate * _STEP_SECONDS))
    return min(limits)


def _batches(
    foundation: Foundation, digests: Sequence[Digest], step: int
) -> Iterator[list[Digest]]:
    sizes = dict(foundation.index.query("SELECT digest, size FROM objects"))
    batch: list[Digest] = []
    size = 0
    for digest in digests:
        batch.append(digest)
        size += sizes.get(digest, 0)
        if size >= step or len(batch) >= _STEP_OBJECTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _combined(
    reports: Sequence[VerificationReport], records: Sequence[Problem]
) -> VerificationReport:
    problems = [problem for report in reports for problem in report.problems]
    return VerificationReport(
        objects=sum(report.objects for report in reports),
        files=sum(report.files for report in reports),
        bytes=sum(report.bytes for report in reports),
        # An object that was looked at again may have come up in its turn as well.
        problems=tuple(dict.fromkeys([*problems, *records])),
    )
