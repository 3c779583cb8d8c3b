"""The transformer: token ids of some positions in, hidden states out, keys and values kept."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dis_derivations.engines.reference.attention import (
    HeadLayout,
    HeadRounding,
    KeyValueCache,
    attend,
)
from dis_derivations.engines.reference.elementary_functions import silu
from dis_derivations.engines.reference.fixed_point import Floats
from dis_derivations.engines.reference.normalization import require_bounded
from dis_derivations.engines.reference.rotary import RotaryTable, rotate
from dis_derivations.engines.reference.weights import LayerWeights, ModelWeights

_TILE_NUMBERS = 1 << 16
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


class Decoder:
    """A model with room for some sequences."""

    def __init__(self, weights: ModelWeights, slots: int, positions: int) -> None:
        """Make room for `slots` sequences of at most `positions` positions each."""
        self._weights = weights
        self._heads = weights.configuration.heads
        self._round_heads = HeadRounding(self._heads)
        self._rotary = RotaryTable(weights.configuration.rope_theta, self._heads.size)
        self._caches = [KeyValueCache(slots, positions, self._heads) for _ in weights.layers]

    def forward(self, spans: Sequence[Span]) -> Floats:
        """Compute the positions of the spans, and return their normalised last hidden states.

        Rows are in the order of the spans. A span's earlier positions must have been computed.

        Raises:
            BuildError: The activations overflowed.
        """
        plan = StepPlan.of(spans)
        tokens = np.array([token for span in spans for token in span.token_ids], dtype=np.intp)
        turns = self._rotary.at(plan.positions)
        x = self._weights.embed(tokens)
        for layer, cache in zip(self._weights.layers, self._caches, strict=True):
            x += self._attention(layer, cache, plan, turns, layer.attention_norm(x))
            x += _feed_forward(layer, layer.mlp_norm(x))
        require_bounded(x)
        return self._weights.final_norm(x)

    def logits(self, hidden: Floats) -> Floats:
        """Return the logits of hidden states: [rows, vocabulary]."""
        return self._weights.head.apply(hidden)

    def _attention(
        self,
        layer: LayerWeights,
        cache: KeyValueCache,
        plan: "StepPlan",
        turns: tuple[Floats, Floats],
        x: Floats,
    ) -> Floats:
        layout = self._heads
        heads = layer.query_key_value.apply(x).reshape(len(x), layout.total, layout.size)
        rotate(heads[:, : layout.queries + layout.keys], *turns)
        queries, keys, values, scales = self._round_heads(heads)
        place = plan.place
        cache.keys[place] = keys
        cache.values[place] = values
        cache.value_scales[place] = scales
        if plan.single is not None and not plan.longer:
            output = _attend_singles(plan.single, queries, cache, layout)
        else:
            output = np.empty((len(x), layout.queries * layout.size))
            if plan.single is not None:
                rows = plan.single_rows
                output[rows] = _attend_singles(plan.single, queries[rows], cache, layout)
            for span_rows, span in plan.longer:
                _attend_span(span, queries[span_rows], cache, layout, output[span_rows])
        return layer.attention_output.apply(output)


@dataclass(frozen=True)
class Singles:
    """The spans of one position in a step, computed together over a range of slots.

    Attributes:
        slots: Their slots, relative to the first of the range.
        range: The slots looked at; idle ones in it are computed for nothing.
        dense: Whether the spans are the whole range, in order.
        positions: How many cached positions the range looks at.
        mask: What each slot sees, [slots, 1, 1, positions]; None when all see all.
    """

    slots: NDArray[np.intp]
    range: slice
    dense: bool
    positions: int
    mask: Floats | None

    @classmethod
    def of(cls, spans: Sequence[Span]) -> "Singles":
        """Lay out spans of one position each."""
        slots = [span.slot for span in spans]
        first, end = min(slots), max(slots) + 1
        lengths = [1] * (end - first)
        for span in spans:
            lengths[span.slot - first] = span.end
        positions = max(lengths)
        mask = None
        if min(lengths) < positions:
            seen = np.arange(positions) < np.array(lengths)[:, None]
            mask = np.where(seen, 0.0, -np.inf)[:, None, None, :]
        return cls(
            slots=np.array(slots, dtype=np.intp) - first,
            range=slice(first, end),
            dense=slots == list(range(first, end)),
            positions=positions,
            mask=mask,
        )


Place = tuple[NDArray[np.intp], slice, NDArray[np.intp]]


@dataclass(frozen=True)
class StepPlan:
    """Where each row of a step belongs; made once, used by every layer.

    Attributes:
        positions: Each row's position in its sequence.
        place: Each row's place in a cache: its slot, all heads, its position.
        single_rows: The rows of `single`.
        longer: The spans of several positions, with their rows.
    """

    positions: NDArray[np.intp]
    place: Place
    single: Singles | None
    single_rows: NDArray[np.intp]
    longer: tuple[tuple[slice, Span], ...]

    @classmethod
    def of(cls, spans: Sequence[Span]) -> "StepPlan":
        """Lay out the spans' rows one after the other."""
        rows = [(span.slot, at) for span in spans for at in range(span.start, span.end)]
        slots, positions = np.array(rows, dtype=np.intp).T
        singles: list[Span] = []
        single_rows: list[int] = []
        longer: list[tuple[slice, Span]] = []
        row = 0
        for span in spans:
            count = len(span.token_ids)
            if count == 1:
                singles.append(span)
                single_rows.append(row)
            else:
                longer.append((slice(row, row + count), span))
            row += count
        return cls(
            positions=positions,
            place=(slots, slice(None), positions),
            single=Singles.of(singles) if singles else None,
            single_rows=np.array(single_rows, dtype=np.intp),
            longer=tuple(longer),
        )


def _attend_singles(
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
    seen = (slots, slice(None), slice(singles.positions))
    answer = attend(
        asked, cache.keys[seen], cache.values[seen], cache.value_scales[seen], singles.mask
    )
    chosen = answer if singles.dense else answer[singles.slots]
    return chosen.reshape(len(queries), -1)


def _attend_span(
    span: Span, queries: Floats, cache: KeyValueCache, layout: HeadLayout, output: Floats
) -> None:
    """Attend from consecutive positions of one sequence, some rows at a time."""
    count = len(queries)
    by_head = queries.reshape(count, layout.keys, layout.group, layout.size).swapaxes(0, 1)
    step = max(1, _TILE_NUMBERS // (layout.queries * span.end))
    for first in range(0, count, step):
        last = min(first + step, count)
        seen = span.start + last
        answer = attend(
            by_head[:, first:last].reshape(1, layout.keys, -1, layout.size),
            cache.keys[span.slot : span.slot + 1, :, :seen],
            cache.values[span.slot : span.slot + 1, :, :seen],
            cache.value_scales[span.slot : span.slot + 1, :, :seen],
            _causal_mask(span.start + first, seen, layout.group),
        )
        by_row = answer.reshape(layout.keys, last - first, layout.group, layout.size)
        output[first:last] = by_row.swapaxes(0, 1).reshape(last - first, -1)


def _causal_mask(first: int, end: int, group: int) -> Floats:
    """Return what rows first … end-1 see, each row `group` times: [rows * group, end]."""
    seen = np.arange(end) <= np.arange(first, end)[:, None]
    return np.repeat(np.where(seen, 0.0, -np.inf), group, axis=0)


def _feed_forward(layer: LayerWeights, x: Floats) -> Floats:
    gate_up = layer.gate_up.apply(x)
    half = gate_up.shape[1] // 2
    activated = np.empty((len(x), half))
    step = max(1, _TILE_NUMBERS // half)
    for first in range(0, len(x), step):
        tile = gate_up[first : first + step]
        np.multiply(silu(tile[:, :half]), tile[:, half:], out=activated[first : first + step])
    return layer.down.apply(activated)
