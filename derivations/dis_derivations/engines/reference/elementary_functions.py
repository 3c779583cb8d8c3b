"""Exponential, SiLU, sine, cosine from operations that IEEE-754 defines to the last bit.

Library versions of these functions differ between CPUs and releases. Here each step is one array
operation among + - * / rint, comparison, selection, table look-up; the tables and coefficients come
from decimal arithmetic with 50 digits, rounded once to doubles. Nothing can be contracted into a
fused multiply-add, because each operation is a call of its own.
"""

from decimal import Context, Decimal
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dis_derivations.engines.reference.fixed_point import Floats

_DIGITS = Context(prec=50)
_LN2 = _DIGITS.ln(Decimal(2))
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582")

STEPS_PER_OCTAVE = 64
_OCTAVES = 64
_LAST_STEP = STEPS_PER_OCTAVE * _OCTAVES

LOG2E_STEPS = float(_DIGITS.divide(Decimal(STEPS_PER_OCTAVE), _LN2))
"""Multiplies a natural exponent into steps of 1/64 octave."""


def _halving_table() -> Floats:
    """Return 2^(-i/64) for i = 0 … 4095, then a zero."""
    octave = [
        float(_DIGITS.exp(_DIGITS.divide(_DIGITS.multiply(_LN2, -i), STEPS_PER_OCTAVE)))
        for i in range(STEPS_PER_OCTAVE)
    ]
    powers = np.ldexp(1.0, -np.arange(_OCTAVES))
    table = np.multiply.outer(powers, np.array(octave)).ravel()
    return np.append(table, 0.0)


def _step_coefficients() -> tuple[float, ...]:
    """Return the Taylor coefficients of 2^(f/64), the highest power first."""
    rate = _DIGITS.divide(_LN2, Decimal(STEPS_PER_OCTAVE))
    return tuple(
        float(_DIGITS.divide(_DIGITS.power(rate, n), Decimal(factorial(n))))
        for n in (5, 4, 3, 2, 1)
    )


_HALVINGS = _halving_table()

# Arrays without axes: numpy takes them in half the time that it takes Python's floats in.
_ZERO, _ONE = np.array(0.0), np.array(1.0)
_FARTHEST = np.array(float(_LAST_STEP))
_STEPS = np.array(LOG2E_STEPS)
_FIRST_COEFFICIENT, *_COEFFICIENTS = (np.array(value) for value in _step_coefficients())


class HalvingScratch(NamedTuple):
    """The arrays that 2^(-u/64) is computed in, for callers that ask for it often.

    Attributes:
        series: Where the result lies, until the next one.
    """

    steps: Floats
    series: Floats
    indices: NDArray[np.intp]

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> "HalvingScratch":
        """Return arrays of this shape."""
        return cls(np.empty(shape), np.empty(shape), np.empty(shape, np.intp))


class SiluScratch(NamedTuple):
    """The arrays that SiLU is computed in, for callers that ask for it often."""

    distances: Floats
    positive: NDArray[np.bool_]
    halving: HalvingScratch

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> "SiluScratch":
        """Return arrays of this shape."""
        return cls(np.empty(shape), np.empty(shape, np.bool_), HalvingScratch.of(shape))

    def first(self, rows: int) -> "SiluScratch":
        """Return the first rows of these arrays."""
        steps, series, indices = self.halving.steps, self.halving.series, self.halving.indices
        return SiluScratch(
            self.distances[:rows],
            self.positive[:rows],
            HalvingScratch(steps[:rows], series[:rows], indices[:rows]),
        )


def halve_by_steps(u: Floats, scratch: HalvingScratch | None = None) -> Floats:
    """Return 2^(-u/64) for u >= 0, overwriting u; zero from u = 4095.5 (about 2^-64) on.

    The error is below 4 ulp for every u: the table's entry, the polynomial, their product are
    rounded; the polynomial's own error is below 4e-17, since |f| <= 1/2.
    """
    np.minimum(u, _FARTHEST, out=u)
    return halve_by_table_steps(u, scratch)


def halve_by_table_steps(u: Floats, scratch: HalvingScratch | None = None) -> Floats:
    """Return the same for u that are known to be at most 4096."""
    scratch = scratch or HalvingScratch.of(u.shape)
    steps, series, indices = scratch.steps, scratch.series, scratch.indices
    np.rint(u, steps)
    f = np.subtract(steps, u, u)
    np.multiply(f, _FIRST_COEFFICIENT, series)
    for coefficient in _COEFFICIENTS:
        np.add(series, coefficient, series)
        np.multiply(series, f, series)
    np.add(series, _ONE, series)
    indices[...] = steps
    # All are in range; where numpy checks that, it makes a copy first.
    _HALVINGS.take(indices, out=steps, mode="clip")
    return np.multiply(series, steps, series)


def exp_of_negative(x: Floats, scratch: SiluScratch | None = None) -> Floats:
    """Return exp(-|x|).

    The error is below 4 + 2|x| ulp up to |x| = 44.35: the conversion into steps rounds its factor
    and the product. Zero from 44.36 on, where the true value is below 2^-63.9.
    """
    scratch = scratch or SiluScratch.of(x.shape)
    u = np.abs(x, scratch.distances)
    np.multiply(u, _STEPS, u)
    return halve_by_steps(u, scratch.halving)


def silu(x: Floats, scratch: SiluScratch | None = None) -> Floats:
    """Return x / (1 + exp(-x)).

    The error is below 7 + 2|x| ulp for x >= -44.35; below -44.36 the result is 0.
    """
    scratch = scratch or SiluScratch.of(x.shape)
    decay = exp_of_negative(x, scratch)
    # The decay where x is negative, one elsewhere: it lies between zero and one. Selecting by a
    # condition as irregular as a sign takes several times as long.
    numerator = scratch.distances
    numerator[...] = np.greater_equal(x, _ZERO, scratch.positive)
    np.maximum(numerator, decay, out=numerator)
    np.add(decay, _ONE, decay)
    np.multiply(numerator, x, numerator)
    return np.divide(numerator, decay, numerator)


def _parts_of_half_pi() -> tuple[float, float, float]:
    """Return pi/2 as a sum of three doubles, the first two of 33 bits."""
    rest = _DIGITS.divide(_PI, Decimal(2))
    parts = []
    for last_place in (32, 65):
        scale = Decimal(1 << last_place)
        part = _DIGITS.divide(Decimal(int(_DIGITS.multiply(rest, scale))), scale)
        parts.append(float(part))
        rest = _DIGITS.subtract(rest, part)
    return parts[0], parts[1], float(rest)


def _alternating_coefficients(*orders: int) -> tuple[float, ...]:
    """Return (-1)^(n//2) / n! for each order n."""
    return tuple(
        float(_DIGITS.divide(Decimal((-1) ** (n // 2)), Decimal(factorial(n)))) for n in orders
    )


_TWO_OVER_PI = float(_DIGITS.divide(Decimal(2), _PI))
_HALF_PI = _parts_of_half_pi()
_SINE = _alternating_coefficients(17, 15, 13, 11, 9, 7, 5, 3)
_COSINE = _alternating_coefficients(16, 14, 12, 10, 8, 6, 4, 2)

LARGEST_ANGLE = float(1 << 18)
"""In radians; sine and cosine are defined up to here."""


def sine_and_cosine(x: Floats) -> tuple[Floats, Floats]:
    """Return sin(x), cos(x) for 0 <= x <= LARGEST_ANGLE; the absolute error is below 3e-16.

    k = rint(2x/pi) has at most 18 bits, so its products with the first two parts of pi/2, of 33
    bits each, are exact.
    """
    k = np.rint(x * _TWO_OVER_PI)
    r = x - k * _HALF_PI[0]
    r -= k * _HALF_PI[1]
    r -= k * _HALF_PI[2]
    sine, cosine = _sine_near_zero(r), _cosine_near_zero(r)
    quadrant = k.astype(np.int64) & 3
    odd = (quadrant & 1) == 1
    sine, cosine = np.where(odd, cosine, sine), np.where(odd, sine, cosine)
    return _negated_where(sine, quadrant >= 2), _negated_where(  # noqa: PLR2004 - third, fourth quadrant
        cosine,
        (quadrant == 1) | (quadrant == 2),  # noqa: PLR2004 - second, third
    )


def _sine_near_zero(r: Floats) -> Floats:
    square = r * r
    series = square * _SINE[0]
    for coefficient in _SINE[1:]:
        series += coefficient
        series *= square
    series *= r
    series += r
    return series


def _cosine_near_zero(r: Floats) -> Floats:
    square = r * r
    series = square * _COSINE[0]
    for coefficient in _COSINE[1:]:
        series += coefficient
        series *= square
    series += 1.0
    return series


def _negated_where(x: Floats, condition: NDArray[np.bool_]) -> Floats:
    return np.where(condition, 0.0 - x, x)
