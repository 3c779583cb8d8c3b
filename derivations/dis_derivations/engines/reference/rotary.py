"""Rotary position embedding: which angle each position turns each pair of a head by."""

import numpy as np
from numpy.typing import NDArray

from dis_derivations.engines.reference.elementary_functions import (
    LARGEST_ANGLE,
    sine_and_cosine,
)
from dis_derivations.engines.reference.fixed_point import Floats
from dis_derivations.engines.reference.rotary_scaling import Rotation

_POSITIONS_PER_BLOCK = 1024


class RotaryTable:
    """Cosines and sines of every position asked for so far, made in blocks."""

    def __init__(self, rotation: Rotation) -> None:
        self._frequencies = np.array(rotation.frequencies)
        self._factor = rotation.factor
        self._cosines = np.empty((0, len(self._frequencies)))
        self._sines = np.empty((0, len(self._frequencies)))

    def at(self, positions: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Return cosines and sines times the rotation's factor, each [positions, head_size/2]."""
        last = int(positions.max())
        while last >= len(self._cosines):
            self._grow()
        return self._cosines[positions], self._sines[positions]

    def of(self, position: int) -> tuple[Floats, Floats]:
        """Return the same of one position, each [head_size/2]."""
        while position >= len(self._cosines):
            self._grow()
        return self._cosines[position], self._sines[position]

    def _grow(self) -> None:
        start = len(self._cosines)
        positions = np.arange(start, start + _POSITIONS_PER_BLOCK, dtype=np.float64)
        if positions[-1] > LARGEST_ANGLE:
            raise ValueError("a position is beyond what sine and cosine are defined for")
        angles = np.multiply.outer(positions, self._frequencies)
        sines, cosines = sine_and_cosine(angles)
        sines *= self._factor
        cosines *= self._factor
        self._cosines = np.concatenate((self._cosines, cosines))
        self._sines = np.concatenate((self._sines, sines))


class RowRotation:
    """Turns the heads of one row at a time, all by one angle a pair, in arrays of its own.

    The steps are those of `rotate`, on the same numbers: taking a product away is adding the product
    with the negated sine, and a sum does not depend on which of its two terms comes first.
    """

    def __init__(self, heads: int, size: int) -> None:
        """Make room for this many heads."""
        self._cosines, self._sines = (np.empty((heads, 2, size // 2)) for _ in range(2))
        self._straight, self._crossed = (np.empty((heads, 2, size // 2)) for _ in range(2))

    def turn_by(self, cosines: Floats, sines: Floats) -> None:
        """Take the angles that heads are turned by from now on: cosines and sines, [size/2]."""
        self._cosines[...] = cosines
        self._sines[:, 1] = sines
        np.multiply(sines, -1.0, self._sines[:, 0])

    def __call__(self, heads: Floats) -> None:
        """Turn heads in place: [heads, 2, size/2], first coordinates, then second ones."""
        np.multiply(heads, self._cosines, self._straight)
        np.multiply(heads[:, ::-1], self._sines, self._crossed)
        np.add(self._straight, self._crossed, heads)


def rotate(heads: Floats, cosines: Floats, sines: Floats) -> None:
    """Turn each head in place: [rows, heads, head_size] by [rows, head_size/2].

    The first half of a head holds the pairs' first coordinates, the second half their second, as in
    Hugging Face's checkpoints.
    """
    half = heads.shape[-1] // 2
    first, second = heads[..., :half], heads[..., half:]
    cosines, sines = cosines[:, None, :], sines[:, None, :]
    turned = first * cosines
    turned -= second * sines
    second *= cosines
    second += first * sines
    heads[..., :half] = turned
