"""The transformer for one position of one sequence at a time: what decoding one sequence asks for.

The steps are those of `Decoder`, on the same numbers, in arrays that all layers and positions share.
"""

from collections.abc import Sequence

import numpy as np

from dis_derivations.engines.reference.attention import KeyValueCache
from dis_derivations.engines.reference.cache_attention import Span
from dis_derivations.engines.reference.elementary_functions import SiluScratch, silu
from dis_derivations.engines.reference.fixed_point import Floats
from dis_derivations.engines.reference.normalization import RowNormalization, require_bounded
from dis_derivations.engines.reference.rotary import RotaryTable, RowRotation
from dis_derivations.engines.reference.row_attention import RowAttention, SeenPositions
from dis_derivations.engines.reference.row_projection import RowProjection
from dis_derivations.engines.reference.weights import ModelWeights


class RowDecoder:
    """Computes single positions into the caches of a decoder."""

    def __init__(
        self, weights: ModelWeights, caches: Sequence[KeyValueCache], rotary: RotaryTable
    ) -> None:
        """Take what is shared with the decoder of several rows."""
        configuration, layers = weights.configuration, weights.layers
        layout = configuration.heads
        self._weights = weights
        self._caches = caches
        self._rotary = rotary
        self._layout = layout
        self._kinds = configuration.layers
        self._windows = {kind.window for kind in configuration.layers}
        self._normalize = RowNormalization(configuration.hidden_size, configuration.norm_epsilon)
        self._project_heads = RowProjection([layer.query_key_value for layer in layers])
        self._project_output = RowProjection([layer.attention_output for layer in layers])
        self._project_gate_up = RowProjection([layer.gate_up for layer in layers])
        self._project_down = RowProjection([layer.down for layer in layers])
        self._project_logits = RowProjection([weights.head])
        self._heads = self._project_heads.result.reshape(layout.total, layout.size)
        self._turned = self._heads[: layout.queries + layout.keys]
        self._turned_halves = self._turned.reshape(len(self._turned), 2, layout.size // 2)
        self._turn = RowRotation(len(self._turned), layout.size)
        self._attention = RowAttention(layout, self._heads)
        self._gate, self._up = self._project_gate_up.result.reshape(2, -1)
        self._silu_scratch = SiluScratch.of(self._gate.shape)

    def forward(self, span: Span) -> Floats:
        """Compute the one position of a span; return its normalised last hidden state: [1, hidden size].

        Raises:
            BuildError: The activations overflowed.
        """
        [token] = span.token_ids
        [row] = self._weights.embed(np.array([token], dtype=np.intp))
        self._turn.turn_by(*self._rotary.of(span.start))
        seen = {
            window: SeenPositions(self._layout, span.slot, span.start, window)
            for window in self._windows
        }
        for number, layer in enumerate(self._weights.layers):
            normalized = self._normalize(row, layer.attention_norm.weight)
            answer = self._attend(number, normalized, span, seen[self._kinds[number].window])
            np.add(row, self._project_output(number, answer), row)
            normalized = self._normalize(row, layer.mlp_norm.weight)
            np.add(row, self._feed_forward(number, normalized), row)
        require_bounded(row)
        return self._normalize(row, self._weights.final_norm.weight).copy()[None]

    def logits(self, hidden: Floats) -> Floats:
        """Return the logits of one hidden state: [1, hidden size] to [1, vocabulary]."""
        return self._project_logits(0, hidden[0]).copy()[None]

    def _attend(self, number: int, row: Floats, span: Span, seen: SeenPositions) -> Floats:
        cache = self._caches[number]
        self._project_heads(number, row)
        self._normalize_heads(number)
        if self._kinds[number].rotates:
            self._turn(self._turned_halves)
        self._attention.keep(cache, span.slot, span.start)
        return self._attention.attend(seen, cache)

    def _normalize_heads(self, number: int) -> None:
        norms = self._weights.layers[number].head_norms
        if norms is None:
            return
        of_queries, of_keys = norms
        queries, turned = self._layout.queries, self._turned
        turned[:queries] = of_queries(turned[:queries])
        turned[queries:] = of_keys(turned[queries:])

    def _feed_forward(self, number: int, row: Floats) -> Floats:
        self._project_gate_up(number, row)
        activated = silu(self._gate, self._silu_scratch)
        return self._project_down(number, np.multiply(activated, self._up, activated))
