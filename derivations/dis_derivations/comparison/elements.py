"""Comparing the elements of two tensors in bounded memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dis_derivations.artifacts.safetensors_header import DTYPE_BITS, TensorInfo
from dis_derivations.comparison.rules import Rule
from dis_derivations.comparison.tensor_file import TensorFile
from dis_derivations.comparison.ulp import FLOAT_FORMATS, Bits, FloatFormat

# Both sides of a chunk, their ordinals and float64 values together take about thirty times this.
CHUNK_BYTES = 1 << 20

_N = TypeVar("_N", int, float)


@dataclass(frozen=True)
class ElementDifference:
    """One element that differs in bits.

    Attributes:
        element: Its place in the tensor, in row-major order.
        a: A's value, exact; None for a type without floating-point values.
        b: B's value.
        ulp: The steps between them; None where either is NaN or has no floating-point value.
    """

    element: int
    a: float | None
    b: float | None
    ulp: int | None


@dataclass(frozen=True)
class Differences:
    """What a comparison of elements found.

    Attributes:
        compared: Elements looked at.
        differing: Elements whose bits differ.
        outside: Elements that differ by more than a rule allows; all that differ when there are no rules.
        max_abs: The largest difference; None when no pair of finite numbers differs.
        max_ulp: The largest distance; None when no pair of numbers differs.
        nan: Differing elements of which at least one side is NaN.
        first: The first that differs.
        bits: Differing bits of elements without floating-point values; 0 for numbers, whose distance says more.
    """

    compared: int = 0
    differing: int = 0
    outside: int = 0
    max_abs: float | None = None
    max_ulp: int | None = None
    nan: int = 0
    first: ElementDifference | None = None
    bits: int = 0

    def __add__(self, later: "Differences") -> "Differences":
        """Return what both found together; `self` comes first."""
        return Differences(
            compared=self.compared + later.compared,
            differing=self.differing + later.differing,
            outside=self.outside + later.outside,
            max_abs=_larger(self.max_abs, later.max_abs),
            max_ulp=_larger(self.max_ulp, later.max_ulp),
            nan=self.nan + later.nan,
            first=self.first if self.first is not None else later.first,
            bits=self.bits + later.bits,
        )


@dataclass(frozen=True)
class Side:
    """One tensor in an open file."""

    file: TensorFile
    info: TensorInfo


def compare_elements(a: Side, b: Side, count: int, rules: Sequence[Rule] = ()) -> Differences:
    """Compare the first `count` elements of two tensors of the same dtype.

    Elements of types narrower than a byte are counted by the byte.
    """
    width = max(DTYPE_BITS[a.info.dtype] // 8, 1)
    form = FLOAT_FORMATS.get(a.info.dtype)
    found = Differences()
    for offset, left, right in _chunks(a, b, 0, count * DTYPE_BITS[a.info.dtype] // 8):
        if left == right:
            found += Differences(compared=len(left) // width)
        elif form is None:
            found += _opaque(left, right, offset // width, width)
        else:
            found += _numeric(form, form.raw(left), form.raw(right), offset // width, rules)
    return found


def same_bytes(a: Side, b: Side, start: int = 0) -> bool:
    """Return whether two tensors of one size hold the same bytes from byte `start` on."""
    size = a.info.end - a.info.begin
    return size == b.info.end - b.info.begin and all(
        left == right for _, left, right in _chunks(a, b, start, size)
    )


def _chunks(a: Side, b: Side, start: int, end: int) -> Iterator[tuple[int, bytes, bytes]]:
    for offset in range(start, end, CHUNK_BYTES):
        length = min(CHUNK_BYTES, end - offset)
        yield offset, a.file.read(a.info, offset, length), b.file.read(b.info, offset, length)


def _numeric(
    form: FloatFormat, left: Bits, right: Bits, begin: int, rules: Sequence[Rule]
) -> Differences:
    """Compare a chunk of numbers; only those that differ in bits are looked at any closer."""
    places = np.flatnonzero(left != right)
    a, b = left[places], right[places]
    nan = form.is_nan(a) | form.is_nan(b)
    finite = form.is_finite(a) & form.is_finite(b)
    values_a, values_b = form.values(a), form.values(b)
    distances = form.distance(a, b)
    outside = np.zeros(len(places), dtype=np.bool_) if rules else np.ones(len(places), np.bool_)
    for rule in rules:
        outside |= rule.outside(form, a, b)
    # The difference of two huge numbers may overflow to infinity, which is then the answer.
    with np.errstate(over="ignore", invalid="ignore"):
        gaps = np.abs(values_a - values_b)[finite]
    steps = distances[~nan]
    return Differences(
        compared=len(left),
        differing=len(places),
        outside=int(outside.sum()),
        max_abs=float(gaps.max()) if len(gaps) else None,
        max_ulp=int(steps.max()) if len(steps) else None,
        nan=int(nan.sum()),
        first=ElementDifference(
            element=begin + int(places[0]),
            a=float(values_a[0]),
            b=float(values_b[0]),
            ulp=None if nan[0] else int(distances[0]),
        ),
    )


def _opaque(left: bytes, right: bytes, begin: int, width: int) -> Differences:
    """Compare a chunk of integers, booleans or packed numbers: they are equal or not."""
    differing = np.frombuffer(left, np.uint8) ^ np.frombuffer(right, np.uint8)
    rows: NDArray[np.bool_] = (differing.reshape(-1, width) != 0).any(axis=1)
    places = np.flatnonzero(rows)
    return Differences(
        compared=len(rows),
        differing=len(places),
        outside=len(places),
        first=ElementDifference(begin + int(places[0]), None, None, None),
        bits=int(np.bitwise_count(differing).sum()),
    )


def _larger(left: _N | None, right: _N | None) -> _N | None:
    if left is None or right is None:
        return left if right is None else right
    return max(left, right)
