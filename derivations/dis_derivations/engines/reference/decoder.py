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
from dis_derivations.engines.reference.rotary import RotaryTable, rotate
from dis_derivations.engines.reference.weights import LayerWeights, ModelWeights

_TILE_NUMBERS = 1 << 16
"""Scores of one tile of a prompt: about what a core's cache holds with its temporaries."""


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
        """
        plan = StepPlan.of(spans)
        tokens = np.array([token for span in spans for token in span.token_ids], dtype=np.intp)
        turns = self._rotary.at(plan.positions)
        x = self._weights.embed(tokens)
        for layer, cache in zip(self._weights.layers, self._caches, strict=True):
            x += self._attention(layer, cache, plan, turns, layer.attention_norm(x))
            x += _feed_forward(layer, layer.mlp_norm(x))
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
        cache.keys[plan.slots, :, plan.positions] = keys
        cache.values[plan.slots, :, plan.positions] = values
        cache.value_scales[plan.slots, :, plan.positions] = scales
        output = np.empty((len(x), layout.queries * layout.size))
        if plan.single is not None:
            _attend_singles(plan.single, queries, cache, layout, output)
        for rows, span in plan.longer:
            _attend_span(span, queries[rows], cache, layout, output[rows])
        return layer.attention_output.apply(output)


@dataclass(frozen=True)
class Singles:
    """The spans of one position in a step, computed together over a range of slots.

    Attributes:
        rows: Their rows in the step.
        slots: Their slots, relative to `first_slot`.
        first_slot: The least of their slots.
        slot_count: The length of the range; idle slots in it are computed for nothing.
        positions: How many cached positions the range looks at.
        mask: What each slot sees, [slots, 1, 1, positions]; None when all see all.
    """

    rows: NDArray[np.intp]
    slots: NDArray[np.intp]
    first_slot: int
    slot_count: int
    positions: int
    mask: Floats | None

    @classmethod
    def of(cls, rows: Sequence[int], spans: Sequence[Span]) -> "Singles":
        """Lay out the spans, each of one position, whose rows are given."""
        first = min(span.slot for span in spans)
        slots = np.array([span.slot - first for span in spans], dtype=np.intp)
        lengths = np.ones(int(slots.max()) + 1)
        lengths[slots] = [span.end for span in spans]
        positions = int(lengths.max())
        mask = None
        if lengths.min() < positions:
            seen = np.arange(positions) < lengths[:, None]
            mask = np.where(seen, 0.0, -np.inf)[:, None, None, :]
        return cls(np.array(rows, dtype=np.intp), slots, first, len(lengths), positions, mask)


@dataclass(frozen=True)
class StepPlan:
    """Where each row of a step belongs; made once, used by every layer."""

    slots: NDArray[np.intp]
    positions: NDArray[np.intp]
    single: Singles | None
    longer: tuple[tuple[slice, Span], ...]

    @classmethod
    def of(cls, spans: Sequence[Span]) -> "StepPlan":
        """Lay out the spans' rows one after the other."""
        counts = [len(span.token_ids) for span in spans]
        ends = np.cumsum(counts)
        ones = [number for number, count in enumerate(counts) if count == 1]
        return cls(
            slots=np.repeat(np.array([span.slot for span in spans], dtype=np.intp), counts),
            positions=np.concatenate([np.arange(span.start, span.end) for span in spans]),
            single=Singles.of([int(ends[n]) - 1 for n in ones], [spans[n] for n in ones])
            if ones
            else None,
            longer=tuple(
                (slice(int(end) - count, int(end)), span)
                for end, count, span in zip(ends, counts, spans, strict=True)
                if count > 1
            ),
        )


def _attend_singles(
    singles: Singles, queries: Floats, cache: KeyValueCache, layout: HeadLayout, output: Floats
) -> None:
    """Attend from one position each of several sequences; idle slots ask with zeros."""
    shape = (singles.slot_count, layout.keys, layout.group, layout.size)
    asked = np.zeros(shape)
    asked[singles.slots] = queries[singles.rows].reshape(-1, *shape[1:])
    span = slice(singles.first_slot, singles.first_slot + singles.slot_count)
    answer = attend(
        asked,
        cache.keys[span, :, : singles.positions],
        cache.values[span, :, : singles.positions],
        cache.value_scales[span, :, : singles.positions],
        singles.mask,
    )
    output[singles.rows] = answer[singles.slots].reshape(len(singles.rows), -1)


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
    activated = silu(gate_up[:, :half])
    activated *= gate_up[:, half:]
    return layer.down.apply(activated)
