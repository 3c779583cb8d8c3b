"""Rounding doubles to the narrower floating-point formats, straight from their bits.

Each value is rounded once, to the nearest value of the target with ties to even, subnormals and
overflow to infinity included (IEEE 754, section 4.3.1). Going from double to bfloat16 through
float32 would round twice, and be wrong just beside the ties; and a cast by the processor obeys
whatever rounding and flush-to-zero mode some library left behind. Integers know no modes.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DOUBLE_MANTISSA = 52
_DOUBLE_BIAS = 1023


@dataclass(frozen=True)
class FloatFormat:
    """A binary interchange format: one sign bit, then exponent and mantissa of these widths."""

    exponent_bits: int
    mantissa_bits: int

    @property
    def width(self) -> int:
        """Bytes of one value."""
        return (1 + self.exponent_bits + self.mantissa_bits) // 8

    @property
    def bias(self) -> int:
        """What is added to an exponent before it is stored."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def infinity(self) -> int:
        """The bits of positive infinity."""
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    @property
    def quiet_nan(self) -> int:
        """The bits of the one NaN that is ever written, so that payloads cannot differ."""
        return self.infinity | 1 << (self.mantissa_bits - 1)


FORMATS = {
    "F64": FloatFormat(11, 52),
    "F32": FloatFormat(8, 23),
    "F16": FloatFormat(5, 10),
    "BF16": FloatFormat(8, 7),
}
"""The formats that doubles can be rounded to, by their names in a safetensors file."""


def rounded_bytes(values: "NDArray[np.float64]", dtype: str) -> bytes:
    """Return `values`, rounded to the format called `dtype`, as little-endian bytes in C order.

    Every NaN becomes the format's positive quiet NaN.
    """
    import numpy as np

    target = FORMATS[dtype]
    bits = np.ascontiguousarray(values, dtype="<f8").reshape(-1).view("<u8")
    magnitude = bits & np.uint64(2**63 - 1)
    rounded = magnitude if dtype == "F64" else _rounded_magnitudes(magnitude, target)
    sign_shift = target.width * 8 - 1
    rounded = rounded | (bits >> np.uint64(63)) << np.uint64(sign_shift)
    rounded[magnitude > np.uint64(FORMATS["F64"].infinity)] = target.quiet_nan
    return rounded.astype(f"<u{target.width}").tobytes()


def _rounded_magnitudes(
    magnitude: "NDArray[np.uint64]", target: FloatFormat
) -> "NDArray[np.uint64]":
    """Round doubles given as bits without their sign; NaN comes out as anything."""
    import numpy as np

    # The lowest exponent field of a double whose value is normal in the target.
    lowest = _DOUBLE_BIAS + 1 - target.bias
    rebias = np.uint64((lowest - 1) << _DOUBLE_MANTISSA)
    is_small = magnitude < np.uint64(lowest << _DOUBLE_MANTISSA)
    shift = np.uint64(_DOUBLE_MANTISSA - target.mantissa_bits)
    # A carry out of the mantissa goes into the exponent, which is just where it belongs.
    rounded = _shift_to_even(np.where(is_small, np.uint64(0), magnitude - rebias), shift)
    rounded = np.minimum(rounded, np.uint64(target.infinity))
    if is_small.any():
        rounded[is_small] = _subnormals(magnitude[is_small], lowest, target)
    return rounded


def _subnormals(
    magnitude: "NDArray[np.uint64]", lowest: int, target: FloatFormat
) -> "NDArray[np.uint64]":
    """Round doubles below the target's normal range to a count of its smallest subnormal."""
    import numpy as np

    exponent = magnitude >> np.uint64(_DOUBLE_MANTISSA)
    # Doubles that are subnormal themselves lie far below half of any target's smallest value, so
    # it does no harm to give them the leading bit that they lack.
    one = np.uint64(1 << _DOUBLE_MANTISSA)
    significand = (magnitude & (one - np.uint64(1))) | one
    shift = np.uint64(_DOUBLE_MANTISSA - target.mantissa_bits + lowest) - exponent
    # Beyond 54 places less than half a unit is left, and numpy's shifts end at 63.
    return _shift_to_even(significand, np.minimum(shift, np.uint64(_DOUBLE_MANTISSA + 2)))


def _shift_to_even(
    value: "NDArray[np.uint64]", shift: "NDArray[np.uint64] | np.uint64"
) -> "NDArray[np.uint64]":
    """Divide by 2**shift (shift >= 1), rounded to nearest with ties to even."""
    import numpy as np

    one = np.uint64(1)
    odd = (value >> shift) & one
    half_less_one = (one << (shift - one)) - one
    shifted: NDArray[np.uint64] = (value + half_less_one + odd) >> shift
    return shifted
