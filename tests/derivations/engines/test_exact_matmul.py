"""Products are the exact sums of the rounded factors, whatever the order of their terms."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from dis_derivations.engines.reference.blocked_product import blocked_product
from dis_derivations.engines.reference.exact_matmul import BitBudget, ExactWeights
from dis_derivations.engines.reference.fixed_point import (
    SIGNIFICAND_BITS,
    bits_to_count,
    require_exact,
    round_rows,
    row_exponents,
    split_rows,
)

Floats = NDArray[np.float64]

numbers = st.one_of(
    st.floats(-1e3, 1e3, allow_subnormal=False),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0**-140, -(2.0**120), 1e-30, 3.0]),
)


@st.composite
def factors(draw: st.DrawFn) -> tuple[Floats, Floats]:
    inputs = draw(st.integers(1, 40))
    rows, outputs = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    x = draw(arrays.arrays(np.float64, (rows, inputs), elements=numbers))
    w = draw(arrays.arrays(np.float64, (outputs, inputs), elements=numbers))
    return x, w


def exact_products(x: Floats, weights: ExactWeights) -> Floats:
    """Compute in fractions what `multiply` promises: two exact sums, added with one rounding."""
    high, low = np.empty_like(x), np.empty_like(x)
    split_rows(x, weights.budget.activation_bits, high, low)

    def exact(row: Floats, column: Floats) -> float:
        return float(sum(Fraction(a) * Fraction(b) for a, b in zip(row, column, strict=True)))

    return np.array(
        [
            [exact(a, w) + exact(b, w) + 0.0 for w in weights.values]
            for a, b in zip(high, low, strict=True)
        ]
    )


@settings(deadline=None)
@given(factors())
def test_a_product_is_the_exact_sum_of_its_rounded_factors(given: tuple[Floats, Floats]) -> None:
    x, w = given
    weights = ExactWeights(w.copy())
    assert weights.multiply(x).tobytes() == exact_products(x, weights).tobytes()


@settings(deadline=None)
@given(factors(), st.randoms(use_true_random=False))
def test_the_order_of_the_terms_changes_no_bit(
    given: tuple[Floats, Floats], random: object
) -> None:
    x, w = given
    order = list(range(x.shape[1]))
    random.shuffle(order)  # type: ignore[attr-defined]
    straight = ExactWeights(w.copy()).multiply(x)
    shuffled = ExactWeights(w[:, order].copy()).multiply(x[:, order])
    assert straight.tobytes() == shuffled.tobytes()


@settings(deadline=None)
@given(factors())
def test_a_row_does_not_depend_on_its_neighbours(given: tuple[Floats, Floats]) -> None:
    x, w = given
    weights = ExactWeights(w.copy())
    together = weights.multiply(x)
    for number in range(len(x)):
        assert weights.multiply(x[number : number + 1]).tobytes() == together[number].tobytes()


@settings(deadline=None)
@given(arrays.arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(1, 9)), elements=numbers))
def test_two_slices_keep_a_row_to_twice_their_bits(x: Floats) -> None:
    bits = 19
    high, low = np.empty_like(x), np.empty_like(x)
    split_rows(x, bits, high, low)
    units = np.ldexp(1.0, row_exponents(x) - bits)
    low_units = units * 2.0 ** (-bits - 1)
    for part, unit in ((high, units), (low, low_units)):
        counts = part / unit
        assert (counts == np.rint(counts)).all()
        assert (np.abs(counts) <= 2**bits).all()
    assert (np.abs(x - (high + low)) <= low_units / 2).all()


def test_rounding_turns_negative_zero_into_zero() -> None:
    x = np.array([[-0.0, -0.0], [-0.0, 1.0]])
    assert not np.signbit(round_rows(x, row_exponents(x), 20)).any()


def test_rows_of_zeros_stay_zero() -> None:
    assert (ExactWeights(np.zeros((3, 5))).multiply(np.zeros((2, 5))) == 0).all()


@pytest.mark.parametrize("terms", [1, 2, 64, 576, 4096, 14336, 1 << 20])
def test_a_budget_fills_the_significand_and_does_not_exceed_it(terms: int) -> None:
    budget = BitBudget.of(terms)
    used = budget.activation_bits + budget.weight_bits + bits_to_count(terms)
    assert used == SIGNIFICAND_BITS
    with pytest.raises(ValueError, match="do not fit"):
        BitBudget(terms, budget.activation_bits, budget.weight_bits + 1)


def test_the_bound_is_reached_exactly_by_the_largest_integers() -> None:
    require_exact(1024, 21, 22)
    with pytest.raises(ValueError, match="do not fit"):
        require_exact(1025, 21, 22)


@pytest.mark.parametrize("rows", [1, 2, 3, 8])
@pytest.mark.parametrize("shape", [(7, 5), (1000, 600), (4096, 129)])
def test_a_product_in_blocks_equals_the_product_at_once(rows: int, shape: tuple[int, int]) -> None:
    generator = np.random.default_rng(3)
    x = generator.integers(-(2**19), 2**19, (rows, shape[1])).astype(np.float64)
    w = generator.integers(-(2**20), 2**20, shape).astype(np.float64)
    assert np.array_equal(blocked_product(x, w), (x.astype(np.int64) @ w.T.astype(np.int64)))
