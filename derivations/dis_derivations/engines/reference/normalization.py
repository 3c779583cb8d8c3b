"""Root-mean-square normalisation with an exact sum of squares."""

from math import ldexp

import numpy as np

from dis_derivations.engines.reference.fixed_point import (
    SIGNIFICAND_BITS,
    Floats,
    bits_to_count,
    require_exact,
    rounding_constant,
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
