"""The log of what reached a disk, and the states that a power cut may leave of it.

A disk promises no more than this: what was written before a flush that ended is there, and of what was written since,
any part may be.
"""

import os
import random
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

WRITE, FLUSH, MARK = b"W", b"F", b"M"
_HEADER = struct.Struct("<cQI")
# What a disk writes in one piece.
_SECTOR = 4096


@dataclass(frozen=True)
class Record:
    """A write, a flush or a mark."""

    kind: bytes
    offset: int
    data: bytes


def encode(kind: bytes, offset: int = 0, data: bytes = b"") -> bytes:
    """Return a record as it stands in the log."""
    return _HEADER.pack(kind, offset, len(data)) + data


def read_log(path: Path) -> list[Record]:
    """Return all records of a log that nobody writes to."""
    data, position, records = path.read_bytes(), 0, []
    while position < len(data):
        kind, offset, length = _HEADER.unpack_from(data, position)
        position += _HEADER.size
        records.append(Record(kind, offset, data[position : position + length]))
        position += length
    return records


@dataclass(frozen=True)
class CrashState:
    """The power goes after `cut` records. Of the writes since the last flush, the disk has those in `kept`.

    Attributes:
        cut: How many records there were.
        flushed: How many of them the last flush made safe.
        kept: Indices of later writes that reached the disk all the same.
        torn: The one among them that only its first half reached, if any.
    """

    cut: int
    flushed: int
    kept: tuple[int, ...]
    torn: int | None = None


class WriteLog:
    """The records of one command, on top of the image that it began with."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records

    @cached_property
    def _flushed(self) -> list[int]:
        """For each cut, how many records the last flush before it made safe."""
        safe, found = 0, [0]
        for number, record in enumerate(self.records, start=1):
            if record.kind == FLUSH:
                safe = number
            found.append(safe)
        return found

    def acknowledged(self, state: CrashState) -> list[str]:
        """Return what had been said before the power went."""
        return [record.data.decode() for record in self.records[: state.cut] if record.kind == MARK]

    def states(self, count: int, seed: int) -> list[CrashState]:
        """Return at most `count` states: those at flushes and marks, as thinly as need be, and random ones."""
        chance = random.Random(seed)  # noqa: S311 - which one is no secret
        telling = [
            number
            for number, record in enumerate(self.records, start=1)
            if record.kind in (FLUSH, MARK)
        ]
        chosen = [self._nothing_more(cut) for cut in telling]
        if len(chosen) > count // 2:
            # The last ones stay: by then everything was promised.
            chosen = sorted(chance.sample(chosen[:-2], count // 2 - 2), key=_cut) + chosen[-2:]
        # A short log has fewer different ones than were asked for.
        found = set(chosen)
        for _ in range(4 * count):
            if len(found) < count:
                found.add(self._random(chance))
        return sorted(found, key=lambda state: (state.cut, state.kept))

    def _nothing_more(self, cut: int) -> CrashState:
        return CrashState(cut, self._flushed[cut], ())

    def _random(self, chance: random.Random) -> CrashState:
        cut = chance.randrange(1, len(self.records) + 1)
        flushed = self._flushed[cut]
        share = chance.choice((0.2, 0.5, 0.8, 1.0))
        kept = tuple(
            number
            for number in range(flushed, cut)
            if self.records[number].kind == WRITE and chance.random() < share
        )
        return CrashState(cut, flushed, kept, chance.choice((*kept[-1:], None)))

    def write(self, image: int, numbers: Iterable[int], *, torn: int | None = None) -> None:
        """Write records to an image, the torn one by half."""
        for number in numbers:
            record = self.records[number]
            if record.kind == WRITE:
                length = len(record.data)
                if number == torn:
                    length = length // 2 // _SECTOR * _SECTOR
                os.pwrite(image, record.data[:length], record.offset)

    def advancing(self, states: Sequence[CrashState]) -> Iterator[tuple[CrashState, int]]:
        """Yield the states in order, each with how many records the one before it had made safe."""
        safe = 0
        for state in sorted(states, key=_cut):
            yield state, safe
            safe = state.flushed


def _cut(state: CrashState) -> int:
    return state.cut
