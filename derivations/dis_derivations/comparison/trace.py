"""Comparing engine traces line by line."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import BinaryIO

from dis_derivations.runs.bundle import TRACE_FILE
from dis_derivations.runs.bundle_documents import Bundle

# A line of a trace grows with the batch: a step of ten thousand requests takes some 400 kB.
MAX_LINE_BYTES = 16 * 2**20
_SHOWN = 300


@dataclass(frozen=True)
class TraceComparison:
    """Two engine traces.

    Attributes:
        steps_a: Lines of A.
        steps_b: Lines of B.
        first: The first line that differs, counted from 0; None when all agree.
        line_a: A's line there, shortened; None where A has ended.
        line_b: B's line there.
    """

    steps_a: int
    steps_b: int
    first: int | None
    line_a: str | None
    line_b: str | None

    @property
    def identical(self) -> bool:
        """Whether every byte is the same."""
        return self.first is None


def compare_traces(a: Bundle, b: Bundle) -> TraceComparison:
    """Compare the traces of two bundles in bounded memory."""
    steps_a = steps_b = 0
    first: tuple[int, bytes, bytes] | None = None
    with a.reader.open(TRACE_FILE) as file_a, b.reader.open(TRACE_FILE) as file_b:
        lines = zip_longest(_lines(a, file_a), _lines(b, file_b), fillvalue=b"")
        for number, (left, right) in enumerate(lines):
            steps_a += bool(left)
            steps_b += bool(right)
            if first is None and left != right:
                first = (number, left, right)
    if first is None:
        return TraceComparison(steps_a, steps_b, None, None, None)
    return TraceComparison(steps_a, steps_b, first[0], _shown(first[1]), _shown(first[2]))


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
