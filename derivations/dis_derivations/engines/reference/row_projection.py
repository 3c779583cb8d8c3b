"""Projections of one row, which decoding one sequence asks for.

There a call of numpy costs more than its arithmetic, so results lie in arrays that are made once.
"""

from collections.abc import Sequence

import numpy as np

from dis_derivations.engines.reference.blocked_product import (
    PairProduct,
    blocked_product,
    thread_shares,
)
from dis_derivations.engines.reference.fixed_point import Floats, RowSlices
from dis_derivations.engines.reference.weights import Linear

_ZERO = np.array(0.0)


class RowProjection:
    """One projection of every layer, for one row at a time, in arrays that the layers share.

    The steps are those of `Linear.apply`, on the same numbers; the sums are exact in any order.

    Attributes:
        result: Where each projection lies until the next one: [outputs].
    """

    def __init__(self, linears: Sequence[Linear]) -> None:
        """Take the projection of each layer: all of one shape."""
        weights = linears[0].weights
        outputs, inputs = weights.values.shape
        self._slices = RowSlices(inputs, weights.budget.activation_bits)
        self._products = np.empty((2, outputs))
        self.result, self._low = self._products
        self._linears = linears
        self._pairs = [self._pair(linear) for linear in linears]

    def __call__(self, number: int, row: Floats) -> Floats:
        """Project a row [inputs] as layer `number` does; return `result`."""
        self._slices.cut(row)
        pair = self._pairs[number]
        linear = self._linears[number]
        if pair is None:
            blocked_product(self._slices.both, linear.weights.values, self._products)
        else:
            pair.multiply()
        np.add(self.result, self._low, self.result)
        np.add(self.result, _ZERO, self.result)
        if linear.bias is not None:
            np.add(self.result, linear.bias, self.result)
        return self.result

    def _pair(self, linear: Linear) -> PairProduct | None:
        """Return a product on this thread; None where the weights are worth several threads."""
        weights = linear.weights.values
        if thread_shares(weights) > 1:
            return None
        return PairProduct(self._slices.both, weights, self._products)
