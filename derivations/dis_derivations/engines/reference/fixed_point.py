"""Rounding rows of numbers to integers times a common power of two.

A double holds every integer up to 2^53. So where all numbers of a sum are integers times one power
of two, and no partial sum exceeds 2^53 of that unit, every addition is exact: order, blocking,
threads, vector width and fused multiply-add cannot change a bit. This module makes such numbers.

Rounding to a multiple of 2^k is `(x + c) - c` with c = 1.5 * 2^(52+k): doubles near c are spaced by
2^k, so the first addition rounds (half to even) and the subtraction is exact. Both are single IEEE
operations. They also turn -0.0 into 0.0.
"""

from math import frexp, ldexp

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Exponents = NDArray[np.int32]

SIGNIFICAND_BITS = 53
"""Every integer of at most this many bits is a double."""

LEAST_EXPONENT = -400
"""Rows smaller than 2^-400 are rounded as if they were that large: nothing here meets a subnormal."""

LEAST_MAGNITUDE = ldexp(1.0, LEAST_EXPONENT - 1)


def bits_to_count(terms: int) -> int:
    """Return the bits that a sum of `terms` numbers may have more than the largest of them."""
    if terms < 1:
        raise ValueError("a sum needs at least one term")
    return (terms - 1).bit_length()


def require_exact(terms: int, *bits: int) -> None:
    """Check that a sum of `terms` products of integers of the given sizes is exact in a double.

    Each factor may be as large as 2^bits in magnitude, both ends included.

    Raises:
        ValueError: A partial sum could exceed 2^53.
    """
    if sum(bits) + bits_to_count(terms) > SIGNIFICAND_BITS:
        raise ValueError(
            f"sums of {terms} products of {' x '.join(map(str, bits))} bits do not fit in "
            f"{SIGNIFICAND_BITS} bits"
        )


def rounding_constant(bits: int) -> float:
    """Return the c for which `(x + c) - c` rounds |x| < 1 to integers of `bits` bits."""
    return ldexp(1.5, SIGNIFICAND_BITS - 1 - bits)


def row_exponents(x: Floats) -> Exponents:
    """Return for each row (last axis, kept) the least e >= LEAST_EXPONENT with all |x| < 2^e."""
    magnitudes = np.maximum.reduce(np.abs(x), axis=-1, keepdims=True, initial=LEAST_MAGNITUDE)
    exponents: Exponents = np.frexp(magnitudes)[1]
    return exponents


def row_exponent(row: Floats, magnitudes: Floats) -> int:
    """Return the least e with all |x| < 2^e of one row [width], by way of `magnitudes` of its shape.

    It may be less than LEAST_EXPONENT; `PowerTable` takes it for that much then. Of a row that is not
    finite it is 0: whatever is made of such a row with it is not finite either.
    """
    np.abs(row, magnitudes)
    return frexp(magnitudes.item(magnitudes.argmax()))[1]


class PowerTable(dict[int, Floats]):
    """A constant times 2^(factor * exponent), by exponent; LEAST_EXPONENT stands for all below it.

    The entries are arrays without axes: numpy takes them in half the time that it takes Python's
    floats in.
    """

    def __init__(self, constant: float, factor: int = 1) -> None:
        """Keep what is multiplied; entries are made when they are asked for."""
        super().__init__()
        self._constant = constant
        self._factor = factor

    def __missing__(self, exponent: int) -> Floats:
        power = self._factor * max(exponent, LEAST_EXPONENT)
        entry = self[exponent] = np.array(np.ldexp(self._constant, power))
        return entry


def round_rows(x: Floats, exponents: Exponents, bits: int, out: Floats | None = None) -> Floats:
    """Round each row to integers of at most `bits` bits times 2^(exponent - bits).

    `exponents` broadcasts against `x`, and |x| < 2^exponents must hold.
    """
    shift = np.ldexp(rounding_constant(bits), exponents)
    rounded = np.add(x, shift, out=out)
    rounded -= shift
    return rounded


def split_rows(x: Floats, bits: int, high: Floats, low: Floats) -> None:
    """Write x into two slices whose sum is x to 2*bits+1 bits below its row's largest magnitude.

    Each row of `high` is integers of at most `bits` bits times 2^(e - bits), each row of `low` the
    same times 2^(e - 2*bits - 1), where 2^e bounds the row. The remainder between the two roundings
    is exact, because both x and `high` are multiples of x's last place.
    """
    shift = np.ldexp(rounding_constant(bits), row_exponents(x))
    np.add(x, shift, out=high)
    high -= shift
    np.subtract(x, high, out=low)
    shift *= ldexp(1.0, -bits - 1)
    low += shift
    low -= shift


class RowSlices:
    """Cuts one row into the two slices that `split_rows` makes of it, in arrays of its own.

    Attributes:
        both: The slices of the row cut last, [2, width]: high, low.
    """

    def __init__(self, width: int, bits: int) -> None:
        """Make room for rows of this width."""
        self.both = np.empty((2, width))
        self.high, self.low = self.both
        self._magnitudes = np.empty(width)
        self._high_shifts = PowerTable(rounding_constant(bits))
        self._low_shifts = PowerTable(ldexp(rounding_constant(bits), -bits - 1))

    def cut(self, row: Floats) -> None:
        """Cut a row [width]."""
        high, low = self.high, self.low
        exponent = row_exponent(row, self._magnitudes)
        shift = self._high_shifts[exponent]
        np.add(row, shift, high)
        np.subtract(high, shift, high)
        np.subtract(row, high, low)
        shift = self._low_shifts[exponent]
        np.add(low, shift, low)
        np.subtract(low, shift, low)
