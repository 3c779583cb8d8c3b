import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dis_derivations.artifacts.float_rounding import FORMATS, FloatFormat, rounded_bytes

NARROW = ["F32", "F16", "BF16"]


def rounded_bits(value: float, dtype: str) -> int:
    return int.from_bytes(rounded_bytes(np.array([value]), dtype), "little")


def value_of(bits: int, form: FloatFormat) -> Fraction:
    """The exact value of the bits of a finite number; infinity counts as the next number up."""
    exponent, mantissa = bits >> form.mantissa_bits, bits & ((1 << form.mantissa_bits) - 1)
    if exponent:
        mantissa, exponent = mantissa + (1 << form.mantissa_bits), exponent - 1
    return Fraction(mantissa) * Fraction(2) ** (exponent + 1 - form.bias - form.mantissa_bits)


def nearest_bits(value: float, form: FloatFormat) -> int:
    """The nearest bits to a finite value, by bisection over exact fractions."""
    magnitude = abs(Fraction(value))
    low, high = 0, form.infinity
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if value_of(middle, form) <= magnitude else (low, middle)
    below, above = magnitude - value_of(low, form), value_of(high, form) - magnitude
    bits = high if above < below or (above == below and low % 2) else low
    return bits | (math.copysign(1, value) < 0) << (form.width * 8 - 1)


def halfway(form: FloatFormat) -> st.SearchStrategy[float]:
    """Doubles at, just below and just above the middle between two neighbours of a format."""
    return st.builds(
        lambda bits, side, sign: (
            sign
            * math.nextafter(
                float((value_of(bits, form) + value_of(bits + 1, form)) / 2), side * math.inf
            )
            if side
            else sign * float((value_of(bits, form) + value_of(bits + 1, form)) / 2)
        ),
        st.integers(0, form.infinity - 1),
        st.sampled_from([-1, 0, 1]),
        st.sampled_from([-1.0, 1.0]),
    )


@pytest.mark.parametrize("dtype", NARROW)
@given(data=st.data())
def test_each_value_becomes_its_nearest_neighbour(dtype: str, data: st.DataObject) -> None:
    form = FORMATS[dtype]
    value = data.draw(st.floats(allow_nan=False, allow_infinity=False) | halfway(form))
    assert rounded_bits(value, dtype) == nearest_bits(value, form)


def test_bfloat16_is_rounded_once_and_not_through_float32() -> None:
    # Just above a tie of bfloat16, by less than float32 can tell: rounding twice would go down.
    value = 1 + 2**-8 + 2**-40
    twice = np.array([np.float32(value)], dtype=np.float64)
    assert rounded_bits(value, "BF16") == 0x3F81
    assert rounded_bytes(twice, "BF16") == (0x3F80).to_bytes(2, "little")


@pytest.mark.parametrize(("dtype", "numpy_type"), [("F32", "<f4"), ("F16", "<f2"), ("F64", "<f8")])
@given(values=st.lists(st.floats(allow_nan=False), max_size=40))
def test_it_agrees_with_numpy_where_numpy_has_the_format(
    dtype: str, numpy_type: str, values: list[float]
) -> None:
    with np.errstate(over="ignore"):
        expected = np.array(values, dtype="f8").astype(numpy_type).tobytes()
    assert rounded_bytes(np.array(values, dtype="f8"), dtype) == expected


@pytest.mark.parametrize(
    ("dtype", "nan", "infinity"),
    [
        ("F64", 0x7FF8000000000000, 0x7FF0000000000000),
        ("F32", 0x7FC00000, 0x7F800000),
        ("F16", 0x7E00, 0x7C00),
        ("BF16", 0x7FC0, 0x7F80),
    ],
)
def test_every_nan_is_the_same_and_infinity_stays(dtype: str, nan: int, infinity: int) -> None:
    payload = np.array([0xFFF0000000000001], dtype="<u8").view("<f8")[0]
    assert rounded_bits(float("nan"), dtype) == rounded_bits(payload, dtype) == nan
    assert rounded_bits(math.inf, dtype) == infinity


@given(st.floats(allow_nan=False))
@example(-0.0)
def test_a_double_stays_as_it_is(value: float) -> None:
    assert rounded_bytes(np.array([value]), "F64") == np.array([value], dtype="<f8").tobytes()


def test_rows_are_written_in_c_order_whatever_their_strides() -> None:
    rows = np.arange(6, dtype=np.float64).reshape(2, 3).T
    assert rounded_bytes(rows, "F32") == np.array([0, 3, 1, 4, 2, 5], dtype="<f4").tobytes()
