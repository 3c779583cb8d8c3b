"""The transformer: token ids of some positions in, hidden states out, keys and values kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dis_derivations.engines.reference.attention import HeadRounding, KeyValueCache
from dis_derivations.engines.reference.cache_attention import (
    TILE_NUMBERS,
    Singles,
    Span,
    attend_singles,
    attend_span,
)
from dis_derivations.engines.reference.elementary_functions import SiluScratch, silu
from dis_derivations.engines.reference.fixed_point import Floats
from dis_derivations.engines.reference.normalization import require_bounded
from dis_derivations.engines.reference.rotary import RotaryTable, rotate
from dis_derivations.engines.reference.row_decoder import RowDecoder
from dis_derivations.engines.reference.weights import LayerWeights, ModelWeights

Turns = tuple[Floats, Floats]


class Decoder:
    """A model with room for some sequences."""

    def __init__(self, weights: ModelWeights, slots: int, positions: int) -> None:
        """Make room for `slots` sequences of at most `positions` positions each."""
        configuration = weights.configuration
        self._weights = weights
        self._heads = configuration.heads
        self._kinds = configuration.layers
        self._windows = {kind.window for kind in configuration.layers}
        self._round_heads = HeadRounding(self._heads)
        self._rotary = RotaryTable(configuration.rotation)
        self._caches = [KeyValueCache(slots, positions, self._heads) for _ in weights.layers]
        self._silu_scratch = SiluScratch.of((1, configuration.intermediate_size))
        self._silu_rows = self._silu_scratch
        self._of_one_row = RowDecoder(weights, self._caches, self._rotary)

    def forward(self, spans: Sequence[Span]) -> Floats:
        """Compute the positions of the spans, and return their normalised last hidden states.

        Rows are in the order of the spans. A span's earlier positions must have been computed.

        Raises:
            BuildError: The activations overflowed.
        """
        if len(spans) == len(spans[0].token_ids) == 1:
            return self._of_one_row.forward(spans[0])
        x = self._last_states(spans)
        require_bounded(x)
        return self._weights.final_norm(x)

    def logits(self, hidden: Floats) -> Floats:
        """Return the logits of hidden states: [rows, vocabulary]."""
        if len(hidden) == 1:
            return self._of_one_row.logits(hidden)
        return self._weights.head.apply(hidden)

    def _last_states(self, spans: Sequence[Span]) -> Floats:
        """Return what the last layer leaves of each row: [rows, hidden size]."""
        plan = StepPlan.of(spans, self._windows)
        tokens = np.array([token for span in spans for token in span.token_ids], dtype=np.intp)
        turns = self._rotary.at(plan.positions)
        x = self._weights.embed(tokens)
        for number, layer in enumerate(self._weights.layers):
            x += self._attention(number, plan, turns, layer.attention_norm(x))
            x += self._feed_forward(layer, layer.mlp_norm(x))
        return x

    def _attention(self, number: int, plan: "StepPlan", turns: Turns, x: Floats) -> Floats:
        layer, cache = self._weights.layers[number], self._caches[number]
        queries, keys, values, scales = self._round_heads(self._projected(number, turns, x))
        place = plan.place
        cache.keys[place] = keys
        cache.values[place] = values
        cache.value_scales[place] = scales
        return layer.attention_output.apply(self._attend(number, plan, queries))

    def _projected(self, number: int, turns: Turns, x: Floats) -> Floats:
        """Return queries, keys, values of each row: [rows, heads, head size]."""
        layer, layout = self._weights.layers[number], self._heads
        heads = layer.query_key_value.apply(x).reshape(len(x), layout.total, layout.size)
        turned = layout.queries + layout.keys
        if layer.head_norms is not None:
            of_queries, of_keys = layer.head_norms
            heads[:, : layout.queries] = of_queries(heads[:, : layout.queries])
            heads[:, layout.queries : turned] = of_keys(heads[:, layout.queries : turned])
        if self._kinds[number].rotates:
            rotate(heads[:, :turned], *turns)
        return heads

    def _attend(self, number: int, plan: "StepPlan", queries: Floats) -> Floats:
        layout, cache, window = self._heads, self._caches[number], self._kinds[number].window
        singles = plan.singles[window] if plan.singles else None
        if singles is not None and not plan.longer:
            return attend_singles(singles, queries, cache, layout)
        output = np.empty((len(queries), layout.queries * layout.size))
        if singles is not None:
            rows = plan.single_rows
            output[rows] = attend_singles(singles, queries[rows], cache, layout)
        for span_rows, span in plan.longer:
            attend_span(span, window, queries[span_rows], cache, layout, output[span_rows])
        return output

    def _feed_forward(self, layer: LayerWeights, x: Floats) -> Floats:
        gate_up = layer.gate_up.apply(x)
        half = gate_up.shape[1] // 2
        activated = np.empty((len(x), half))
        step = max(1, TILE_NUMBERS // half)
        for first in range(0, len(x), step):
            tile = gate_up[first : first + step]
            gates = silu(tile[:, :half], self._silu_arrays(len(tile), half))
            np.multiply(gates, tile[:, half:], out=activated[first : first + step])
        return layer.down.apply(activated)

    def _silu_arrays(self, rows: int, width: int) -> SiluScratch:
        """Return what SiLU is computed in: memory fresh from the system costs more than arithmetic."""
        if rows > len(self._silu_scratch.distances):
            self._silu_scratch = SiluScratch.of((rows, width))
        if rows != len(self._silu_rows.distances):
            self._silu_rows = self._silu_scratch.first(rows)
        return self._silu_rows


Place = tuple[NDArray[np.intp], slice, NDArray[np.intp]]


@dataclass(frozen=True)
class StepPlan:
    """Where each row of a step belongs; made once, used by every layer.

    Attributes:
        positions: Each row's position in its sequence.
        place: Each row's place in a cache: its slot, all heads, its position.
        singles: For each window the spans of one position; empty when there are none.
        single_rows: Their rows.
        longer: The spans of several positions, with their rows.
    """

    positions: NDArray[np.intp]
    place: Place
    singles: Mapping[int | None, Singles]
    single_rows: NDArray[np.intp]
    longer: tuple[tuple[slice, Span], ...]

    @classmethod
    def of(cls, spans: Sequence[Span], windows: set[int | None]) -> "StepPlan":
        """Lay out the spans' rows one after the other, for layers with these windows."""
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
            singles={window: Singles.of(singles, window) for window in windows if singles},
            single_rows=np.array(single_rows, dtype=np.intp),
            longer=tuple(longer),
        )
