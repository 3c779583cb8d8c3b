"""What is computed of one row at a time has the bits of the same row among others."""

from collections.abc import Iterator
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from dis_derivations.engines.reference import blocked_product
from dis_derivations.engines.reference.attention import HeadLayout, HeadRounding, KeyValueCache
from dis_derivations.engines.reference.cache_attention import Singles, Span, attend_singles
from dis_derivations.engines.reference.exact_matmul import ExactWeights
from dis_derivations.engines.reference.fixed_point import RowSlices, split_rows
from dis_derivations.engines.reference.known_answers import sample
from dis_derivations.engines.reference.normalization import RootMeanSquare, RowNormalization
from dis_derivations.engines.reference.rotary import RowRotation, rotate
from dis_derivations.engines.reference.row_attention import RowAttention, SeenPositions
from dis_derivations.engines.reference.row_projection import RowProjection
from dis_derivations.engines.reference.weights import Linear

Floats = NDArray[np.float64]

POSITIONS = 2200
LAYOUT = HeadLayout(queries=6, keys=2, size=16)

numbers = st.one_of(
    st.floats(-1e3, 1e3, allow_subnormal=False),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0**-140, -(2.0**120), 2.0**-600, 2.0**-401, 2.0**399]),
)
rows = arrays.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=numbers)


def bits(parts: Iterator[Floats] | list[Floats]) -> list[bytes]:
    return [part.tobytes() for part in parts]


@settings(deadline=None)
@given(rows, st.integers(1, 19))
def test_the_slices_of_a_row_are_those_of_the_row_among_others(x: Floats, size: int) -> None:
    high, low = np.empty_like(x), np.empty_like(x)
    split_rows(x, size, high, low)
    slices = RowSlices(x.shape[1], size)
    for number, row in enumerate(x):
        slices.cut(row)
        assert bits(list(slices.both)) == bits([high[number], low[number]])


@settings(deadline=None)
@given(rows, st.sampled_from([1e-5, 1e-300, 1e300]))
def test_a_row_is_normalised_as_among_others(x: Floats, epsilon: float) -> None:
    weight = sample((x.shape[1],), 7)
    expected = RootMeanSquare(weight, epsilon)(x)
    normalize = RowNormalization(x.shape[1], epsilon)
    assert bits(normalize(row, weight) for row in x) == bits(list(expected))


@settings(deadline=None)
@given(
    arrays.arrays(np.float64, (3, 2, 8), elements=numbers),
    arrays.arrays(np.float64, (2, 3, 4), elements=numbers),
)
def test_the_heads_of_a_row_are_turned_as_among_others(heads: Floats, angles: Floats) -> None:
    expected = heads.copy()
    rotate(expected, *angles)
    turn = RowRotation(2, 8)
    for row, cosines, sines in zip(heads, *angles, strict=True):
        turn.turn_by(cosines, sines)
        turn(row.reshape(2, 2, 4))
    assert heads.tobytes() == expected.tobytes()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(7, 5), (300, 1), (2100, 129), (96, 3000)])
@pytest.mark.parametrize("biased", [False, True])
def test_a_row_is_projected_as_among_others(
    monkeypatch: pytest.MonkeyPatch, threads: int, shape: tuple[int, int], biased: bool
) -> None:
    monkeypatch.setattr(blocked_product, "threads", lambda: threads)
    linears = [
        Linear(ExactWeights(sample(shape, seed)), sample(shape[:1], seed) if biased else None)
        for seed in (1, 2)
    ]
    project, x = RowProjection(linears), sample((3, shape[1]), 3)
    for number, linear in enumerate(linears):
        assert bits(project(number, row) for row in x) == bits(list(linear.apply(x)))


def test_a_kernel_that_makes_negative_zeros_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    def negative_zeros(self: blocked_product.PairProduct) -> None:
        for _, *results in self._blocks:
            for result in results:
                result[...] = -0.0

    monkeypatch.setattr(blocked_product.PairProduct, "multiply", negative_zeros)
    project = RowProjection([Linear(ExactWeights(sample((5, 3), 1)), None)])
    assert not np.signbit(project(0, np.zeros(3))).any()


def scattered_heads() -> Floats:
    """Return heads of every position, some with values of another magnitude, some zero."""
    shape = (POSITIONS, LAYOUT.total, LAYOUT.size)
    powers = np.ldexp(3.0, np.arange(prod(shape[:2])) % 11)
    result = sample(shape, 4) * powers.reshape(*shape[:2], 1)
    result[::7, -1] = 0.0
    return result


def heads_with_large_sums() -> Floats:
    """Return heads whose positions count almost the same, with values near the largest.

    Sums over a block of them fill a double, so that it shows what is added in one block and what in
    the next. The few positions that count most have small values, or weights would fill half of it.
    """
    queries, turned = LAYOUT.queries, LAYOUT.queries + LAYOUT.keys
    result = np.ones((POSITIONS, LAYOUT.total, LAYOUT.size))
    result[:, :queries] = sample((POSITIONS, queries, LAYOUT.size), 5)
    result[:, turned:] -= np.abs(sample((POSITIONS, LAYOUT.keys, LAYOUT.size), 6)) / 1024
    result[::25, queries:turned] += 2.0**-8
    result[::25, turned:] /= 8
    return result


@pytest.mark.parametrize("window", [None, 1, 9, 70, 1500, 4000])
@pytest.mark.parametrize(
    "heads", [scattered_heads(), heads_with_large_sums()], ids=["any", "large"]
)
def test_a_position_attends_as_among_others(heads: Floats, window: int | None) -> None:
    cache, others = (KeyValueCache(2, POSITIONS, LAYOUT) for _ in range(2))
    queries, keys, values, scales = HeadRounding(LAYOUT)(heads.copy())
    for each in (cache, others):
        each.keys[1], each.values[1] = keys.swapaxes(0, 1), values.swapaxes(0, 1)
        each.value_scales[1] = scales.T
    row = np.empty(heads.shape[1:])
    attention = RowAttention(LAYOUT, row)
    for position in (0, 1, 8, 9, 500, 1023, 1024, 1025, *range(2170, POSITIONS)):
        place = (1, slice(None), position)
        cache.keys[place], cache.values[place], cache.value_scales[place] = 7.0, 7.0, 7.0
        row[...] = heads[position]
        attention.keep(cache, 1, position)
        answer = attention.attend(SeenPositions(LAYOUT, 1, position, window), cache)

        singles = Singles.of([Span(1, position, (0,))], window)
        expected = attend_singles(singles, queries[position][None], others, LAYOUT)
        assert answer.tobytes() == expected.tobytes()
    for name in ("keys", "values", "value_scales"):
        assert getattr(cache, name).tobytes() == getattr(others, name).tobytes()
