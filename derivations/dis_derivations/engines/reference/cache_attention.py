"""Attention of a step's rows to the cached positions that each of them sees.

A window hides positions by a weight of exactly zero, as the future is hidden. Blocks of positions
that no row sees are left out; since blocks are counted from the beginning of the sequence, and a
hidden one adds zeros, that changes no bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dis_derivations.engines.reference.attention import (
    KEY_BLOCK,
    HeadLayout,
    KeyValueCache,
    attend,
)
from dis_derivations.engines.reference.fixed_point import Floats

TILE_NUMBERS = 1 << 16
"""Numbers that a tile of elementwise work has: about what a core's cache holds with temporaries."""


@dataclass(frozen=True)
class Span:
    """Consecutive positions of one sequence that are computed together.

    Attributes:
        slot: Where the sequence's keys and values are kept.
        start: The first position.
        token_ids: The tokens at the positions.
    """

    slot: int
    start: int
    token_ids: tuple[int, ...]

    @property
    def end(self) -> int:
        """Return one past the last position."""
        return self.start + len(self.token_ids)


@dataclass(frozen=True)
class Singles:
    """The spans of one position in a step, computed together over a range of slots.

    Attributes:
        slots: Their slots, relative to the first of the range.
        range: The slots looked at; idle ones in it are computed for nothing.
        dense: Whether the spans are the whole range, in order.
        positions: Which cached positions the range looks at.
        mask: What each slot sees of them, [slots, 1, 1, positions]; None when all see all.
    """

    slots: NDArray[np.intp]
    range: slice
    dense: bool
    positions: slice
    mask: Floats | None

    @classmethod
    def of(cls, spans: Sequence[Span], window: int | None) -> "Singles":
        """Lay out spans of one position each for layers with this window."""
        slots = [span.slot for span in spans]
        first, end = min(slots), max(slots) + 1
        start = first_seen(min(span.start for span in spans), window)
        # An idle slot sees one position, so that its row is a row of finite numbers.
        ends = [start + 1] * (end - first)
        for span in spans:
            ends[span.slot - first] = span.end
        seen = visible(np.array(ends)[:, None] - 1, np.arange(start, max(ends)), window)
        return cls(
            slots=np.array(slots, dtype=np.intp) - first,
            range=slice(first, end),
            dense=slots == list(range(first, end)),
            positions=slice(start, max(ends)),
            mask=None if seen.all() else np.where(seen, 0.0, -np.inf)[:, None, None, :],
        )


def first_seen(position: int, window: int | None) -> int:
    """Return the beginning of the block in which the first position lies that `position` sees."""
    if window is None:
        return 0
    return max(0, position - window + 1) // KEY_BLOCK * KEY_BLOCK


def visible(
    rows: NDArray[np.intp], positions: NDArray[np.intp], window: int | None
) -> NDArray[np.bool_]:
    """Return whether rows at some positions see others: those before, themselves, in the window."""
    seen: NDArray[np.bool_] = positions <= rows
    if window is not None:
        seen &= positions > rows - window
    return seen


def attend_singles(
    singles: Singles, queries: Floats, cache: KeyValueCache, layout: HeadLayout
) -> Floats:
    """Attend from one position each of several sequences; idle slots ask with zeros."""
    slots = singles.range
    shape = (slots.stop - slots.start, layout.keys, layout.group, layout.size)
    if singles.dense:
        asked = queries.reshape(shape)
    else:
        asked = np.zeros(shape)
        asked[singles.slots] = queries.reshape(-1, *shape[1:])
    seen = (slots, slice(None), singles.positions)
    answer = attend(
        asked, cache.keys[seen], cache.values[seen], cache.value_scales[seen], singles.mask
    )
    chosen = answer if singles.dense else answer[singles.slots]
    return chosen.reshape(len(queries), -1)


def attend_span(
    span: Span,
    window: int | None,
    queries: Floats,
    cache: KeyValueCache,
    layout: HeadLayout,
    output: Floats,
) -> None:
    """Attend from consecutive positions of one sequence, some rows at a time, into `output`."""
    count = len(queries)
    by_head = queries.reshape(count, layout.keys, layout.group, layout.size).swapaxes(0, 1)
    step = max(1, TILE_NUMBERS // (layout.queries * span.end))
    for first in range(0, count, step):
        last = min(first + step, count)
        positions = slice(first_seen(span.start + first, window), span.start + last)
        seen = (slice(span.slot, span.slot + 1), slice(None), positions)
        answer = attend(
            by_head[:, first:last].reshape(1, layout.keys, -1, layout.size),
            cache.keys[seen],
            cache.values[seen],
            cache.value_scales[seen],
            _causal_mask(span.start + first, positions, window, layout.group),
        )
        by_row = answer.reshape(layout.keys, last - first, layout.group, layout.size)
        output[first:last] = by_row.swapaxes(0, 1).reshape(last - first, -1)


def _causal_mask(first: int, positions: slice, window: int | None, group: int) -> Floats:
    """Return what the rows from `first` to the last position see, each row `group` times."""
    rows = np.arange(first, positions.stop)[:, None]
    seen = visible(rows, np.arange(positions.start, positions.stop), window)
    return np.repeat(np.where(seen, 0.0, -np.inf), group, axis=0)
