"""Comparing engine traces line by line."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import BinaryIO

from dis_derivations.comparison.causes.json_changes import Change, json_changes, keyed
from dis_derivations.runs.bundle import TRACE_FILE
from dis_derivations.runs.bundle_documents import Bundle
from dis_store import strict_json
from dis_store.errors import DisError

# A line of a trace grows with the batch: a step of ten thousand requests takes some 400 kB.
MAX_LINE_BYTES = 16 * 2**20
_SHOWN = 300
_SHOWN_CHANGES = 24


@dataclass(frozen=True, eq=False, repr=False)
class TraceComparison:
    """Two engine traces.

    Attributes:
        steps_a: Lines of A.
        steps_b: Lines of B.
        first: The first line that differs, counted from 0; None when all agree.
        line_a: A's line there, shortened; None where A has ended.
        line_b: B's line there.
        changes: What differs in the first steps that do, request by request.
    """

    steps_a: int
    steps_b: int
    first: int | None
    line_a: str | None
    line_b: str | None
    changes: tuple[Change, ...] = ()

    @property
    def identical(self) -> bool:
        """Whether every byte is the same."""
        return self.first is None


def compare_traces(a: Bundle, b: Bundle) -> TraceComparison:
    """Compare the traces of two bundles in bounded memory."""
    steps_a = steps_b = 0
    first: tuple[int, bytes, bytes] | None = None
    changes: list[Change] = []
    with a.reader.open(TRACE_FILE) as file_a, b.reader.open(TRACE_FILE) as file_b:
        lines = zip_longest(_lines(a, file_a), _lines(b, file_b), fillvalue=b"")
        for number, (left, right) in enumerate(lines):
            steps_a += bool(left)
            steps_b += bool(right)
            if first is None and left != right:
                first = (number, left, right)
            if left != right and len(changes) < _SHOWN_CHANGES:
                changes += _step_changes(number, left, right)
    if first is None:
        return TraceComparison(steps_a, steps_b, None, None, None)
    lines_a, lines_b = _shown(first[1]), _shown(first[2])
    shown = tuple(changes[:_SHOWN_CHANGES])
    return TraceComparison(steps_a, steps_b, first[0], lines_a, lines_b, shown)


def _step_changes(step: int, left: bytes, right: bytes) -> tuple[Change, ...]:
    """Return what differs in a step: which requests it computed, and how many tokens of each."""
    if not left or not right:
        sides = ("missing", "there") if not left else ("there", "missing")
        return (Change("engine_trace", f"step {step}", *sides),)
    try:
        old, new = (keyed(strict_json.decode(line, name=TRACE_FILE)) for line in (left, right))
    except DisError:
        return ()  # a trace may be anything; its lines are shown as they are
    return json_changes("engine_trace", old, new, f"step {step}")


def _lines(bundle: Bundle, stream: BinaryIO) -> Iterator[bytes]:
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            cause = f"a line has more than {MAX_LINE_BYTES // 2**20} MiB"
            raise bundle.reader.refusal(f"{TRACE_FILE} is malformed", cause)
        yield line


def _shown(line: bytes) -> str | None:
    if not line:
        return None
    text = line.decode("utf-8", "replace").rstrip("\n")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
