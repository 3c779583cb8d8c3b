"""Floating-point formats as ordered integers, which makes distances in units in the last place exact.

The bits of an IEEE-754 number without its sign, read as an integer, order numbers by magnitude; adding or subtracting
them from a middle value orders all numbers. The difference of two such integers counts the steps between neighbouring
numbers. `+0` and `-0` are one number; infinity is one step beyond the largest finite number; NaN has no distance.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class FloatFormat:
    """How one floating-point type of safetensors lies in its bytes.

    Attributes:
        name: The dtype as safetensors writes it.
        bits: The whole width.
        mantissa: The width of the stored fraction.
    """

    name: str
    bits: int
    mantissa: int

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return self.bits // 8

    def raw(self, data: bytes | bytearray | memoryview) -> Bits:
        """Return the elements of little-endian bytes as unsigned integers."""
        return np.frombuffer(data, dtype=f"<u{self.itemsize}")

    def values(self, bits: Bits) -> NDArray[np.float64]:
        """Return the elements as float64, which holds every value of each format."""
        if self.name == "BF16":
            widened: NDArray[np.float32] = (bits.astype(np.uint32) << 16).view(np.float32)
        else:
            widened = bits.view(f"<f{self.itemsize}")
        # A signalling NaN becomes quiet on the way, which numpy reports as invalid.
        with np.errstate(invalid="ignore"):
            return widened.astype(np.float64)

    def is_nan(self, bits: Bits) -> NDArray[np.bool_]:
        """Return which elements are NaN."""
        return self._magnitude(bits) > self._infinity

    def is_finite(self, bits: Bits) -> NDArray[np.bool_]:
        """Return which elements are neither NaN nor infinite."""
        return self._magnitude(bits) < self._infinity

    def distance(self, left: Bits, right: Bits) -> NDArray[np.uint64]:
        """Return the steps between two arrays, element by element; meaningless where either is NaN."""
        a, b = self._ordinal(left), self._ordinal(right)
        return np.where(a > b, a - b, b - a)

    @property
    def _infinity(self) -> np.uint64:
        exponent = self.bits - 1 - self.mantissa
        return np.uint64(((1 << exponent) - 1) << self.mantissa)

    def _magnitude(self, bits: Bits) -> NDArray[np.uint64]:
        return bits.astype(np.uint64) & np.uint64((1 << (self.bits - 1)) - 1)

    def _ordinal(self, bits: Bits) -> NDArray[np.uint64]:
        magnitude = self._magnitude(bits)
        middle = np.uint64(1 << 63)
        negative = bits.astype(np.uint64) >> np.uint64(self.bits - 1) == 1
        return np.where(negative, middle - magnitude, middle + magnitude)


FLOAT_FORMATS: Mapping[str, FloatFormat] = {
    form.name: form
    for form in (
        FloatFormat("F64", 64, 52),
        FloatFormat("F32", 32, 23),
        FloatFormat("F16", 16, 10),
        FloatFormat("BF16", 16, 7),
    )
}


def ulp_distance(dtype: str, left: int, right: int) -> int | None:
    """Return the steps between two numbers given by their bits; None when either is NaN.

    Args:
        dtype: `F64`, `F32`, `F16` or `BF16`.
        left: The bits of one number, as an unsigned integer.
        right: The bits of the other.
    """
    form = FLOAT_FORMATS[dtype]
    pair = np.array([left, right], dtype=np.uint64)
    if form.is_nan(pair).any():
        return None
    return int(form.distance(pair[:1], pair[1:])[0])
