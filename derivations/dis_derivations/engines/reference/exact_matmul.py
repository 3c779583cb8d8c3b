"""Matrix products whose every partial sum is an exact integer.

Weights are rounded once, each output channel to integers of `weight_bits` bits times a power of
two. Activations are rounded for each product, each row to two slices of `activation_bits` bits.
The slices are stacked as rows of one product, so that the weights are read once, and added in a
fixed order afterwards. A row's result depends on that row and the weights alone.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from dis_derivations.engines.reference.blocked_product import MOST_ROWS, blocked_product
from dis_derivations.engines.reference.fixed_point import (
    SIGNIFICAND_BITS,
    Floats,
    bits_to_count,
    require_exact,
    round_rows,
    row_exponents,
    split_rows,
)

_MOST_SLICE_BITS = 19
"""Two such slices hold 39 bits, enough for activations with outliers a million times the rest."""


@dataclass(frozen=True)
class BitBudget:
    """How many bits each factor of a product may have, so that its sums are exact.

    Attributes:
        terms: How many products one sum has: the length of a row.
        activation_bits: Bits of each of the two slices of an activation.
        weight_bits: Bits of a weight.
    """

    terms: int
    activation_bits: int
    weight_bits: int

    def __post_init__(self) -> None:
        require_exact(self.terms, self.activation_bits, self.weight_bits)

    @classmethod
    def of(cls, terms: int) -> Self:
        """Return the budget for rows of `terms` numbers.

        Two slices make the activations twice as fine, so the weights get the larger part.
        """
        available = SIGNIFICAND_BITS - bits_to_count(terms)
        activation_bits = min(_MOST_SLICE_BITS, available // 2)
        return cls(terms, activation_bits, available - activation_bits)


class ExactWeights:
    """A matrix of weights, [outputs, inputs], on the grid of its bit budget.

    Attributes:
        values: The rounded weights as doubles; the engine's only copy of them.
        budget: The sizes of the factors.
    """

    def __init__(self, values: Floats) -> None:
        """Round `values` in place and keep them. They must be finite."""
        self.values = values
        self.budget = BitBudget.of(values.shape[1])
        # Blocks of rows that stay in the cache through the five passes over them.
        step = max(1, (1 << 16) // values.shape[1])
        for start in range(0, values.shape[0], step):
            block = values[start : start + step]
            round_rows(block, row_exponents(block), self.budget.weight_bits, out=block)
        values.flags.writeable = False

    def multiply(self, x: Floats) -> Floats:
        """Return x times the transposed weights: [rows, inputs] to [rows, outputs].

        The result is each exact sum over the high slices plus that over the low ones, rounded once.
        It holds no negative zero, because kernels disagree about the sign of an exact zero.
        """
        rows, inputs = x.shape
        stacked = np.empty((2 * rows, inputs))
        split_rows(x, self.budget.activation_bits, stacked[:rows], stacked[rows:])
        products = self._products(stacked)
        result = products[:rows]
        result += products[rows:]
        result += 0.0
        return result

    def _products(self, stacked: Floats) -> Floats:
        if len(stacked) <= MOST_ROWS:
            return blocked_product(stacked, self.values)
        products: Floats = np.matmul(stacked, self.values.T)
        return products
