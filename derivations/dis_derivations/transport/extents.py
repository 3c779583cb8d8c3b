"""Which bytes of a file have arrived, as ranges that neither touch nor overlap."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

Extent = tuple[int, int]
"""The first byte, and the one after the last."""


class Extents:
    """A set of bytes."""

    def __init__(self, extents: Iterable[Extent] = ()) -> None:
        self._extents: list[Extent] = []
        for start, end in extents:
            self.add(start, end)

    def add(self, start: int, end: int) -> None:
        """Add the bytes from `start` to before `end`."""
        if start >= end:
            return
        apart = [each for each in self._extents if each[1] < start or each[0] > end]
        touching = [each for each in self._extents if each[1] >= start and each[0] <= end]
        starts = [start, *(each[0] for each in touching)]
        ends = [end, *(each[1] for each in touching)]
        self._extents = sorted([*apart, (min(starts), max(ends))])

    def __iter__(self) -> Iterator[Extent]:
        return iter(self._extents)

    @property
    def count(self) -> int:
        """How many bytes there are."""
        return sum(end - start for start, end in self._extents)

    @property
    def end(self) -> int:
        """The byte after the last one; 0 where there is none."""
        return self._extents[-1][1] if self._extents else 0

    def reach(self, position: int) -> int:
        """Return how far bytes go on without a gap from `position`, which is returned where there is none."""
        for start, end in self._extents:
            if start <= position < end:
                return end
        return position

    def missing(self, size: int) -> Iterator[Extent]:
        """Yield the ranges below `size` that are not there, in order."""
        edges = [(0, 0), *self._extents, (size, size)]
        for (_, end), (start, _) in pairwise(edges):
            if end < min(start, size):
                yield end, min(start, size)
