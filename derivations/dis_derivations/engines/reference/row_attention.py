"""Attention of one position of one sequence, which decoding one sequence asks for.

The steps are those of `HeadRounding` and `attend`, on the same numbers; the sums are exact in any
order. Only positions that the row sees are looked at: others have a weight of zero there, and zeros
change no exact sum. Rows are so short that a call of numpy costs more than its arithmetic, so all of
it lies in arrays that are made once.
"""

from math import ldexp

import numpy as np

from dis_derivations.engines.reference.attention import (
    FARTHEST_STEP,
    KEY_BLOCK,
    SLICE_BITS,
    VALUE_BITS,
    WEIGHT_UNIT,
    HeadLayout,
    KeyValueCache,
    block_sums,
    key_bits,
    query_scale,
)
from dis_derivations.engines.reference.elementary_functions import (
    HalvingScratch,
    halve_by_table_steps,
)
from dis_derivations.engines.reference.fixed_point import (
    LEAST_MAGNITUDE,
    Floats,
    rounding_constant,
)

_FARTHEST = np.array(FARTHEST_STEP)
_UNIT = np.array(WEIGHT_UNIT)
_ONE = np.array(1.0)
_SLICE_CONSTANT = np.array(rounding_constant(SLICE_BITS))
_FROM_HIGH_TO_LOW = np.array(ldexp(1.0, -SLICE_BITS - 1))


class SeenPositions:
    """The positions that one position of a sequence sees, and arrays of their number.

    Made once in a step for each window; what is computed in them is gone in the next layer.

    Attributes:
        place: Where they lie in a cache.
        in_first_block: How many of them the first block of values may hold.
    """

    def __init__(self, layout: HeadLayout, slot: int, position: int, window: int | None) -> None:
        """Find the positions: all up to `position`, or the last `window` of them."""
        first = 0 if window is None else max(0, position + 1 - window)
        count = position + 1 - first
        self.place = (slot, slice(None), slice(first, position + 1))
        self.in_first_block = KEY_BLOCK - first % KEY_BLOCK
        shape = (layout.keys, layout.group, count)
        self.products, self.slices = SlicePairs(shape), SlicePairs(shape)
        self.scores, self.spread = np.empty(shape), np.empty(shape)
        self.scratch = HalvingScratch.of(shape)
        self.weights = self.scratch.series.reshape(-1, count)
        self.ones = np.ones(count)


class SlicePairs:
    """An array for two slices of rows, [key heads, 2 * group, n], or for what they make in a product.

    Attributes:
        both: The array: of each key head the high slices, then the low ones.
        high: Its part of the high slices, [key heads, group, n].
        low: That of the low ones.
    """

    def __init__(self, shape: tuple[int, int, int]) -> None:
        """Make room for two slices of this shape."""
        keys, group, width = shape
        self.both = np.empty((keys, 2 * group, width))
        self.high, self.low = self.both[:, :group], self.both[:, group:]


class RowAttention:
    """Attends from one position at a time, in arrays of its own.

    numpy takes four times as long where arrays differ in shape or lie in parts, but for an assignment.
    So what a head has one number of is spread over arrays of the head's shape first.
    """

    def __init__(self, layout: HeadLayout, heads: Floats) -> None:
        """Take where the heads of each row lie: [heads, size]; they are overwritten."""
        self._heads = _HeadRows(layout, heads)
        shape = (layout.keys, layout.group)
        self._largest, self._total, self._shifts = (np.empty((*shape, 1)) for _ in range(3))
        self._exponents = np.empty((*shape, 1), np.int32)
        self._totals = self._total.reshape(-1)
        self._output, self._other = (np.empty((*shape, layout.size)) for _ in range(2))
        self._output_row = self._output.reshape(-1)
        self._group = layout.group

    def keep(self, cache: KeyValueCache, slot: int, position: int) -> None:
        """Take the heads that lie there now; round their keys and values, and keep them."""
        self._heads.prepare()
        self._heads.keep(cache, (slot, slice(None), position))
        self._heads.cut_queries()

    def attend(self, seen: SeenPositions, cache: KeyValueCache) -> Floats:
        """Return the attention output of the row kept last, [query heads * size], until the next."""
        keys = cache.keys[seen.place].swapaxes(-1, -2)
        np.matmul(self._heads.asked.both, keys, seen.products.both)
        weights = self._weights(seen)
        np.dot(seen.weights, seen.ones, self._totals)
        seen.spread[...] = cache.value_scales[seen.place][:, None]
        np.multiply(weights, seen.spread, weights)
        self._cut_weights(weights, seen)
        sums = block_sums(seen.slices.both, cache.values[seen.place], seen.in_first_block)
        output, other = self._output, self._other
        output[...] = sums[:, : self._group]
        other[...] = sums[:, self._group :]
        np.add(output, other, output)
        other[...] = self._total
        np.divide(output, other, output)
        return self._output_row

    def _weights(self, seen: SeenPositions) -> Floats:
        """Return 2^((score - largest)/64) in units of 2^-36, as integers."""
        scores, spread = seen.scores, seen.spread
        scores[...] = seen.products.high
        spread[...] = seen.products.low
        np.add(scores, spread, scores)
        spread[...] = np.maximum.reduce(scores, axis=-1, out=self._largest, keepdims=True)
        np.subtract(spread, scores, scores)
        np.minimum(scores, _FARTHEST, out=scores)
        weights = halve_by_table_steps(scores, seen.scratch)
        np.multiply(weights, _UNIT, weights)
        return np.rint(weights, weights)

    def _cut_weights(self, weights: Floats, seen: SeenPositions) -> None:
        """Cut weights into slices as `split_rows` does: they are their magnitudes."""
        part, spread = seen.scores, seen.spread
        np.maximum.reduce(weights, axis=-1, out=self._largest, keepdims=True)
        np.frexp(self._largest, self._shifts, self._exponents)
        spread[...] = np.ldexp(_SLICE_CONSTANT, self._exponents, self._shifts)
        np.add(weights, spread, part)
        np.subtract(part, spread, part)
        seen.slices.high[...] = part
        np.subtract(weights, part, part)
        np.multiply(spread, _FROM_HIGH_TO_LOW, spread)
        np.add(part, spread, part)
        np.subtract(part, spread, part)
        seen.slices.low[...] = part


class _HeadRows:
    """Queries, keys, values of one row, rounded as `HeadRounding` and `attend` do it.

    Attributes:
        asked: The queries' slices.
    """

    def __init__(self, layout: HeadLayout, heads: Floats) -> None:
        turned = layout.queries + layout.keys
        queries, keys = slice(layout.queries), slice(layout.queries, turned)
        values = slice(turned, layout.total)
        self.asked = SlicePairs((layout.keys, layout.group, layout.size))
        self._scale = np.array(query_scale(layout.size))
        self._constants = np.full((layout.total, 1), rounding_constant(SLICE_BITS))
        self._constants[keys] = rounding_constant(key_bits(layout.size))
        self._constants[values] = rounding_constant(VALUE_BITS)
        self._largest, self._mantissas = np.empty((layout.total, 1)), np.empty((layout.total, 1))
        self._exponents = np.empty((layout.total, 1), np.int32)
        self._value_exponents = self._exponents[values]
        self._heads, self._queries = heads, heads[queries]
        self._rounded, self._shifts = np.empty_like(heads), np.empty_like(heads)
        self._rounded_queries, self._query_shifts = self._rounded[queries], self._shifts[queries]
        self._rounded_keys, self._rounded_values = self._rounded[keys], self._rounded[values]
        self._value_scales = self._shifts[values]
        by_key = (layout.keys, layout.group, layout.size)
        self._high = self._rounded_queries.reshape(by_key)
        self._low = self._queries.reshape(by_key)

    def prepare(self) -> None:
        """Scale the queries; round all heads, the queries to their high slices."""
        heads, rounded, shifts = self._heads, self._rounded, self._shifts
        np.multiply(self._queries, self._scale, self._queries)
        np.abs(heads, rounded)
        np.maximum.reduce(
            rounded, axis=-1, out=self._largest, keepdims=True, initial=LEAST_MAGNITUDE
        )
        np.frexp(self._largest, self._mantissas, self._exponents)
        shifts[...] = np.ldexp(self._constants, self._exponents, self._largest)
        np.add(heads, shifts, rounded)
        np.subtract(rounded, shifts, rounded)

    def keep(self, cache: KeyValueCache, place: tuple[int, slice, int]) -> None:
        """Keep the keys, and the values as fractions below one."""
        cache.keys[place] = self._rounded_keys
        scales = np.ldexp(_ONE, self._value_exponents)
        cache.value_scales[place] = scales[:, 0]
        self._value_scales[...] = scales
        np.divide(self._rounded_values, self._value_scales, self._rounded_values)
        cache.values[place] = self._rounded_values

    def cut_queries(self) -> None:
        """Make the low slices of what rounding left of the queries."""
        low, shifts = self._queries, self._query_shifts
        np.subtract(low, self._rounded_queries, low)
        np.multiply(shifts, _FROM_HIGH_TO_LOW, shifts)
        np.add(low, shifts, low)
        np.subtract(low, shifts, low)
        self.asked.high[...] = self._high
        self.asked.low[...] = self._low
