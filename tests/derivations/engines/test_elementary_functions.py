"""Our functions are as accurate as their docstrings say, against decimals of 60 digits."""

from collections.abc import Callable
from decimal import Decimal, localcontext
from math import ulp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dis_derivations.engines.reference.elementary_functions import (
    LARGEST_ANGLE,
    exp_of_negative,
    halve_by_steps,
    silu,
    sine_and_cosine,
)
from dis_derivations.engines.reference.rotary_scaling import inverse_frequencies

_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")


def error_in_ulp(found: float, true: Decimal) -> float:
    with localcontext(prec=60):
        return float(abs(Decimal(found) - true) / Decimal(ulp(float(true))))


def exponential(x: Decimal) -> Decimal:
    with localcontext(prec=60):
        return x.exp()


def sigmoid_times(x: float) -> Decimal:
    with localcontext(prec=60):
        return Decimal(x) / (1 + (-Decimal(x)).exp())


def sine(x: Decimal) -> Decimal:
    """Sum the series after exact reduction to one turn."""
    with localcontext(prec=60):
        x = x.remainder_near(2 * _PI)
        term, total, n = x, x, 1
        while abs(term) > Decimal("1e-45"):
            term *= -x * x / ((2 * n) * (2 * n + 1))
            total += term
            n += 1
        return total


@settings(deadline=None)
@given(st.floats(0, 44.35))
def test_the_exponential_is_within_its_error(x: float) -> None:
    [found] = exp_of_negative(np.array([x]))
    assert error_in_ulp(found, exponential(-Decimal(x))) <= 4 + 2 * x


@settings(deadline=None)
@given(st.floats(0, 4095))
def test_halving_by_steps_is_within_its_error(u: float) -> None:
    [found] = halve_by_steps(np.array([u]))
    with localcontext(prec=60):
        true = (-Decimal(u) / 64 * Decimal(2).ln()).exp()
    assert error_in_ulp(found, true) <= 4


@settings(deadline=None)
@given(st.floats(-44, 1e4))
def test_silu_is_within_its_error(x: float) -> None:
    [found] = silu(np.array([x]))
    if abs(x) > 1e-290:
        assert error_in_ulp(found, sigmoid_times(x)) <= 7 + 2 * min(abs(x), 45)


@settings(deadline=None)
@given(st.floats(0, LARGEST_ANGLE))
def test_sine_and_cosine_are_within_their_error(x: float) -> None:
    [[s], [c]] = sine_and_cosine(np.array([x]))
    with localcontext(prec=60):
        assert abs(Decimal(s) - sine(Decimal(x))) < Decimal("3e-16")
        assert abs(Decimal(c) - sine(Decimal(x) + _PI / 2)) < Decimal("3e-16")


@pytest.mark.parametrize(
    ("function", "x", "expected"),
    [
        (exp_of_negative, 0.0, 1.0),
        (exp_of_negative, -0.0, 1.0),
        (exp_of_negative, 1e300, 0.0),
        (exp_of_negative, np.inf, 0.0),
        (silu, 0.0, 0.0),
        (silu, -1000.0, 0.0),
        (silu, 1000.0, 1000.0),
        (silu, 1e300, 1e300),
    ],
)
def test_limits_are_exact(
    function: Callable[[np.ndarray], np.ndarray], x: float, expected: float
) -> None:
    assert function(np.array([x]))[0] == expected


def test_sine_and_cosine_of_zero_are_exact() -> None:
    assert [part.tolist() for part in sine_and_cosine(np.zeros(1))] == [[0.0], [1.0]]


@pytest.mark.parametrize("size", [2, 32, 64, 128])
def test_inverse_frequencies_are_rounded_once(size: int) -> None:
    for i, found in enumerate(inverse_frequencies(500000.0, size)):
        with localcontext(prec=60):
            true = (Decimal(500000).ln() * -2 * i / size).exp()
        assert error_in_ulp(float(found), true) <= 0.5
