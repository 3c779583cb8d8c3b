"""Causal attention whose rows depend on nothing but their own and earlier positions.

Keys and values are rounded once, position by position; queries and weights are cut into two slices
each, row by row; so both products are exact sums. Each position's values have a power of two of
their own, kept beside them and multiplied into the weights: scaling values by the largest of a
column would let later tokens change earlier rows. Weights are rounded to 36 bits below their row's
largest, which makes their sum exact up to 2^17 positions. Positions past a row's own get a weight
of exactly zero, so padding and idle slots change nothing.
"""

from dataclasses import dataclass
from math import ldexp

import numpy as np

from dis_derivations.engines.reference.elementary_functions import (
    LOG2E_STEPS,
    STEPS_PER_OCTAVE,
    halve_by_table_steps,
)
from dis_derivations.engines.reference.fixed_point import (
    SIGNIFICAND_BITS,
    Floats,
    bits_to_count,
    require_exact,
    rounding_constant,
    row_exponents,
    split_rows,
)

MOST_POSITIONS = 1 << 17
"""The longest context for which the sum of a row's weights is exact."""

WEIGHT_BITS = 36
WEIGHT_UNIT = ldexp(1.0, WEIGHT_BITS)
# One step past the distance at which a weight rounds to zero; masked scores are infinitely far.
FARTHEST_STEP = float(STEPS_PER_OCTAVE * (WEIGHT_BITS + 2))

KEY_BLOCK = 1024
"""Values are summed exactly within a block of this many positions; blocks are added in order."""

SLICE_BITS = 18
"""Of each of the two slices of a query or a weight: 37 bits below the row's largest in all."""

VALUE_BITS = SIGNIFICAND_BITS - SLICE_BITS - bits_to_count(KEY_BLOCK)

require_exact(MOST_POSITIONS, WEIGHT_BITS)
require_exact(KEY_BLOCK, VALUE_BITS, SLICE_BITS)


@dataclass(frozen=True)
class HeadLayout:
    """How the heads lie in one row of the fused query, key, value projection.

    Attributes:
        queries: Query heads, first in the row.
        keys: Key heads, and as many value heads after them.
        size: Numbers of one head.
    """

    queries: int
    keys: int
    size: int

    @property
    def group(self) -> int:
        """Return how many query heads share one key head."""
        return self.queries // self.keys

    @property
    def total(self) -> int:
        """Return the heads of one row: queries, keys, values."""
        return self.queries + 2 * self.keys


class KeyValueCache:
    """Keys and values of one layer for every slot: [slots, key heads, positions, head size].

    `values` holds fractions below one, `value_scales` [slots, key heads, positions] their powers
    of two. All zeros until written; the system provides pages as they are touched.
    """

    def __init__(self, slots: int, positions: int, layout: HeadLayout) -> None:
        shape = (slots, layout.keys, positions)
        self.keys = np.zeros((*shape, layout.size))
        self.values = np.zeros((*shape, layout.size))
        self.value_scales = np.zeros(shape)


def key_bits(size: int) -> int:
    """Return how many bits the keys of heads of this size are rounded to."""
    bits = SIGNIFICAND_BITS - SLICE_BITS - bits_to_count(size)
    require_exact(size, SLICE_BITS, bits)
    return bits


def query_scale(size: int) -> float:
    """Return what queries are multiplied by, so that exp(q.k/sqrt(size)) becomes 2^(steps/64).

    These steps are the units that the exponential works in.
    """
    return float(LOG2E_STEPS / np.sqrt(np.float64(size)))


class HeadRounding:
    """Prepares the heads of a fused projection for the products they enter."""

    def __init__(self, layout: HeadLayout) -> None:
        self._layout = layout
        self._constants = np.full((2 * layout.keys, 1), rounding_constant(key_bits(layout.size)))
        self._constants[layout.keys :] = rounding_constant(VALUE_BITS)
        self._query_scale = query_scale(layout.size)

    def __call__(self, heads: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Scale the queries, round keys and values of `heads`, [rows, heads, size], in place.

        Returns:
            Queries, keys, values as fractions below one, the powers of two of the values
            [rows, key heads].
        """
        layout = self._layout
        queries = heads[:, : layout.queries]
        queries *= self._query_scale
        kept = heads[:, layout.queries :]
        exponents = row_exponents(kept)
        shift = np.ldexp(self._constants, exponents)
        kept += shift
        kept -= shift
        value_exponents = exponents[:, layout.keys :]
        values = kept[:, layout.keys :]
        values *= np.ldexp(1.0, -value_exponents)
        return queries, kept[:, : layout.keys], values, np.ldexp(1.0, value_exponents[..., 0])


def attend(
    queries: Floats, keys: Floats, values: Floats, value_scales: Floats, mask: Floats | None
) -> Floats:
    """Return the attention output, [batch, key heads, rows, size].

    Args:
        queries: [batch, key heads, rows, size], in steps of 1/64 octave.
        keys: [batch, key heads, positions, size], rounded.
        values: Like keys; fractions below one, rounded.
        value_scales: [batch, key heads, positions], powers of two.
        mask: Broadcasts against [batch, key heads, rows, positions]; 0 where a row sees a position,
            -inf where not. Every row must see one position.
    """
    rows = queries.shape[2]
    scores = _slices_joined(np.matmul(_slices(queries), keys.swapaxes(-1, -2)), rows)
    if mask is not None:
        scores += mask
    weights = _weights(scores)
    total = np.add.reduce(weights, axis=-1, keepdims=True)
    weights *= value_scales[:, :, None, :]
    output = _slices_joined(block_sums(_slices(weights), values), rows)
    output /= total
    return output


def _slices(x: Floats) -> Floats:
    """Cut [batch, heads, rows, n] into two slices, one's rows after the other's."""
    batch, heads, rows, width = x.shape
    pair = np.empty((batch, heads, 2, rows, width))
    split_rows(x, SLICE_BITS, pair[:, :, 0], pair[:, :, 1])
    return pair.reshape(batch, heads, 2 * rows, width)


def _slices_joined(products: Floats, rows: int) -> Floats:
    joined = products[:, :, :rows]
    joined += products[:, :, rows:]
    return joined


def block_sums(slices: Floats, values: Floats, first: int = KEY_BLOCK) -> Floats:
    """Multiply slices of weights with values: exact within a block, blocks added in order.

    Args:
        slices: [..., rows, positions].
        values: [..., positions, size].
        first: How many of the positions are in the first block; the others hold KEY_BLOCK.
    """
    sums: Floats = np.matmul(slices[..., :first], values[..., :first, :])
    for start in range(first, slices.shape[-1], KEY_BLOCK):
        block = slice(start, start + KEY_BLOCK)
        sums += np.matmul(slices[..., block], values[..., block, :])
    return sums


def _weights(scores: Floats) -> Floats:
    """Return 2^((score - largest)/64) in units of 2^-36, as integers; overwrites `scores`."""
    largest = np.maximum.reduce(scores, axis=-1, keepdims=True)
    distances = np.subtract(largest, scores, out=scores)
    np.minimum(distances, FARTHEST_STEP, out=distances)
    weights = halve_by_table_steps(distances)
    weights *= WEIGHT_UNIT
    return np.rint(weights, out=weights)
