"""Root-mean-square normalisation with an exact sum of squares."""

from math import ldexp

import numpy as np

from dis_derivations.engines.reference.fixed_point import (
    SIGNIFICAND_BITS,
    Floats,
    PowerTable,
    bits_to_count,
    require_exact,
    rounding_constant,
    row_exponent,
    row_exponents,
)
from dis_store.errors import BuildError

LARGEST_ACTIVATION = ldexp(1.0, 400)
"""A residual below this bound was made without overflow, whatever finite weights did to it."""


def require_bounded(x: Floats) -> None:
    """Check the residual stream after the last layer.

    Layers only add to it, so a number that is not finite stays in it, wherever it came from.

    Raises:
        BuildError: A number is not finite or beyond LARGEST_ACTIVATION.
    """
    if not bool(np.abs(x).max() < LARGEST_ACTIVATION):  # false for NaN too
        raise BuildError(
            "the model's activations left the range of the reference engine",
            cause="a value is not finite or beyond 2^400",
            hint="check the weights: a sound model stays below 2^30",
        )


class RootMeanSquare:
    """`x / sqrt(mean(x^2) + epsilon) * weight`, over rows of one width."""

    def __init__(self, weight: Floats, epsilon: float) -> None:
        self.weight = weight
        self.epsilon = epsilon
        bits = SIGNIFICAND_BITS - bits_to_count(weight.shape[0])
        require_exact(weight.shape[0], bits)
        self._constant = rounding_constant(bits)
        self._share = 1.0 / weight.shape[0]

    def __call__(self, x: Floats) -> Floats:
        """Normalise each row of x, [..., width].

        Squares are taken of the row scaled below one, rounded to 53 - log2(width) bits below the
        point, summed exactly.
        """
        exponents = row_exponents(x)
        squares = x * np.ldexp(1.0, -exponents)
        squares *= squares
        squares += self._constant
        squares -= self._constant
        mean = np.add.reduce(squares, axis=-1, keepdims=True)
        mean *= np.ldexp(self._share, 2 * exponents)
        mean += self.epsilon
        scaled = x / np.sqrt(mean)
        scaled *= self.weight
        return scaled


class RowNormalization:
    """The same for one row at a time, in arrays of its own, for all weights of one width.

    The steps are those of `RootMeanSquare`, on the same numbers. The sum is a product with ones, which
    is exact in any order, too.
    """

    def __init__(self, width: int, epsilon: float) -> None:
        """Make room for rows of this width."""
        bits = SIGNIFICAND_BITS - bits_to_count(width)
        require_exact(width, bits)
        self._epsilon = np.array(epsilon)
        self._constant = np.array(rounding_constant(bits))
        self._scales = PowerTable(1.0, -1)
        self._shares = PowerTable(1.0 / width, 2)
        self._ones = np.ones(width)
        self._squares, self._scaled = np.empty(width), np.empty(width)
        # Two, because numpy takes three times as long where a single number is overwritten.
        self._mean, self._root = np.empty(()), np.empty(())

    def __call__(self, row: Floats, weight: Floats) -> Floats:
        """Normalise a row [width]; the result is overwritten by the next one."""
        squares, scaled, mean, root = self._squares, self._scaled, self._mean, self._root
        exponent = row_exponent(row, squares)
        np.multiply(row, self._scales[exponent], squares)
        np.multiply(squares, squares, squares)
        np.add(squares, self._constant, squares)
        np.subtract(squares, self._constant, squares)
        np.dot(squares, self._ones, mean)
        np.multiply(mean, self._shares[exponent], root)
        np.add(root, self._epsilon, mean)
        np.sqrt(mean, root)
        np.divide(row, root, scaled)
        return np.multiply(scaled, weight, scaled)
