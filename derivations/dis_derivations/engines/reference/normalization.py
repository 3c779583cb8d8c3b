"""Root-mean-square normalisation with an exact sum of squares."""

import numpy as np

from dis_derivations.engines.reference.fixed_point import (
    SIGNIFICAND_BITS,
    Floats,
    bits_to_count,
    exponents_of,
    require_exact,
    row_magnitudes,
)
from dis_store.errors import BuildError

LARGEST_ACTIVATION = 2.0**400
"""What follows from activations below this bound stays finite, whatever finite weights do."""


class RootMeanSquare:
    """`x / sqrt(mean(x^2) + epsilon) * weight`, over rows of one width."""

    def __init__(self, weight: Floats, epsilon: float) -> None:
        self.weight = weight
        self.epsilon = epsilon
        self.width = float(weight.shape[0])
        bits = SIGNIFICAND_BITS - bits_to_count(weight.shape[0])
        require_exact(weight.shape[0], bits)
        self._shift = 1.5 * 2.0 ** (SIGNIFICAND_BITS - 1 - bits)

    def __call__(self, x: Floats) -> Floats:
        """Normalise each row of x, [rows, width].

        Squares are taken of the row scaled below one, rounded to 53 - log2(width) bits below the
        decimal point, summed exactly.

        Raises:
            BuildError: An activation is not finite, or so large that the next one may not be.
        """
        magnitudes = row_magnitudes(x)
        if not bool(magnitudes.max() < LARGEST_ACTIVATION):  # false for NaN too
            raise BuildError(
                "the model's activations left the range of the reference engine",
                cause="a value is not finite or beyond 2^400",
                hint="check the weights: a sound model stays below 2^30",
            )
        exponents = exponents_of(magnitudes)
        squares = x * np.ldexp(1.0, -exponents)
        squares *= squares
        squares += self._shift
        squares -= self._shift
        mean = np.add.reduce(squares, axis=-1, keepdims=True)
        mean *= np.ldexp(1.0 / self.width, 2 * exponents)
        mean += self.epsilon
        scaled = x / np.sqrt(mean)
        scaled *= self.weight
        return scaled
