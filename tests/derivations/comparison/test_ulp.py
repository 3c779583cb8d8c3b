import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.comparison.tensors.ulp import FLOAT_FORMATS, ulp_distance

WIDTHS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16}
DTYPES = st.sampled_from(sorted(WIDTHS))


def patterns(dtype: str) -> st.SearchStrategy[int]:
    return st.integers(0, 2 ** WIDTHS[dtype] - 1)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[str, int, int]:
    dtype = draw(DTYPES)
    return dtype, draw(patterns(dtype)), draw(patterns(dtype))


def value(dtype: str, bits: int) -> float:
    """The number by Python's own arithmetic; BF16 is the upper half of a float32."""
    if dtype == "BF16":
        return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
    code, width = {"F64": ("d", "Q"), "F32": ("f", "I"), "F16": ("e", "H")}[dtype]
    return float(struct.unpack(f"<{code}", struct.pack(f"<{width}", bits))[0])


def signed_magnitude(dtype: str, bits: int) -> int:
    sign = 1 << (WIDTHS[dtype] - 1)
    return -(bits - sign) if bits >= sign else bits


@given(pairs())
def test_the_distance_is_the_difference_of_signed_magnitudes(case: tuple[str, int, int]) -> None:
    dtype, left, right = case

    expected = abs(signed_magnitude(dtype, left) - signed_magnitude(dtype, right))
    if math.isnan(value(dtype, left)) or math.isnan(value(dtype, right)):
        assert ulp_distance(dtype, left, right) is None
    else:
        assert ulp_distance(dtype, left, right) == expected


@given(pairs())
def test_the_distance_is_the_same_both_ways(case: tuple[str, int, int]) -> None:
    dtype, left, right = case

    assert ulp_distance(dtype, left, right) == ulp_distance(dtype, right, left)


@given(st.floats(width=64, allow_nan=False, allow_infinity=False), st.booleans())
def test_the_next_float64_is_one_step_away(number: float, up: bool) -> None:
    neighbour = math.nextafter(number, math.inf if up else -math.inf)

    assert ulp_distance("F64", bits_of(number, "<d", "<Q"), bits_of(neighbour, "<d", "<Q")) == 1


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.booleans())
def test_the_next_float32_is_one_step_away(number: float, up: bool) -> None:
    with np.errstate(over="ignore", under="ignore"):
        neighbour = float(np.nextafter(np.float32(number), np.float32(np.inf if up else -np.inf)))

    assert ulp_distance("F32", bits_of(number, "<f", "<I"), bits_of(neighbour, "<f", "<I")) == 1


@given(st.floats(width=16, allow_nan=False, allow_infinity=False), st.booleans())
def test_the_next_float16_is_one_step_away(number: float, up: bool) -> None:
    with np.errstate(over="ignore", under="ignore"):
        neighbour = float(np.nextafter(np.float16(number), np.float16(np.inf if up else -np.inf)))

    assert ulp_distance("F16", bits_of(number, "<e", "<H"), bits_of(neighbour, "<e", "<H")) == 1


@pytest.mark.parametrize("dtype", sorted(WIDTHS))
def test_both_zeros_are_one_number(dtype: str) -> None:
    assert ulp_distance(dtype, 0, 1 << (WIDTHS[dtype] - 1)) == 0


@pytest.mark.parametrize(
    ("dtype", "infinity"), [("F32", 0x7F800000), ("F16", 0x7C00), ("BF16", 0x7F80)]
)
def test_infinity_is_one_step_beyond_the_largest_number(dtype: str, infinity: int) -> None:
    assert ulp_distance(dtype, infinity - 1, infinity) == 1
    assert ulp_distance(dtype, infinity, infinity + 1) is None


def test_the_longest_float64_distance_does_not_overflow() -> None:
    assert (
        ulp_distance("F64", 0x7FF0_0000_0000_0000, 0xFFF0_0000_0000_0000)
        == 2 * 0x7FF0_0000_0000_0000
    )


@given(DTYPES.flatmap(lambda dtype: st.tuples(st.just(dtype), patterns(dtype))))
def test_values_are_those_of_the_bits(case: tuple[str, int]) -> None:
    dtype, bits = case
    form = FLOAT_FORMATS[dtype]
    raw = form.raw(bits.to_bytes(form.itemsize, "little"))

    expected = value(dtype, bits)
    found = float(form.values(raw)[0])
    assert found == expected or (math.isnan(found) and math.isnan(expected))
    assert bool(form.is_nan(raw)[0]) == math.isnan(expected)
    assert bool(form.is_finite(raw)[0]) == math.isfinite(expected)


def bits_of(number: float, code: str, width: str) -> int:
    return int(struct.unpack(width, struct.pack(code, number))[0])
