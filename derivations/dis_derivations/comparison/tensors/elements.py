"""Comparing the elements of two tensors in bounded memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dis_derivations.artifacts.safetensors_header import DTYPE_BITS, TensorInfo
from dis_derivations.comparison.rules import Rule
from dis_derivations.comparison.tensors.differences import Differences, ElementDifference
from dis_derivations.comparison.tensors.tensor_file import TensorFile
from dis_derivations.comparison.tensors.ulp import FLOAT_FORMATS, Bits, FloatFormat

# As much as stays in the processor's cache while it is compared. Where it differs, ordinals and float64 values of both
# sides take about thirty times this.
CHUNK_BYTES = 1 << 18


@dataclass(frozen=True)
class Side:
    """One tensor in an open file."""

    file: TensorFile
    info: TensorInfo


def compare_elements(
    a: Side, b: Side, count: int, rules: Sequence[Rule] = (), *, begin: int = 0
) -> Differences:
    """Compare `count` elements of two tensors of the same dtype, from element `begin` on.

    Elements of types narrower than a byte are counted by the byte.
    """
    width = max(DTYPE_BITS[a.info.dtype] // 8, 1)
    form = FLOAT_FORMATS.get(a.info.dtype)
    found, equal = Differences(), 0
    start, end = (place * DTYPE_BITS[a.info.dtype] // 8 for place in (begin, begin + count))
    for offset, left, right in _chunks(a, b, start, end):
        if left == right:
            equal += len(left) // width
        elif form is None:
            found += _opaque(left, right, offset // width, width)
        else:
            found += _numeric(form, form.raw(left), form.raw(right), offset // width, rules)
    return found + Differences(compared=equal)


def same_bytes(a: Side, b: Side, start: int = 0) -> bool:
    """Return whether two tensors of one size hold the same bytes from byte `start` on."""
    size = a.info.end - a.info.begin
    return size == b.info.end - b.info.begin and all(
        left == right for _, left, right in _chunks(a, b, start, size)
    )


def _chunks(a: Side, b: Side, start: int, end: int) -> Iterator[tuple[int, bytearray, bytearray]]:
    """Yield both sides in pieces; a piece is overwritten by the next one."""
    left, right = bytearray(CHUNK_BYTES), bytearray(CHUNK_BYTES)
    for offset in range(start, end, CHUNK_BYTES):
        length = min(CHUNK_BYTES, end - offset)
        if length < len(left):
            left, right = bytearray(length), bytearray(length)
        a.file.read_into(a.info, offset, left)
        b.file.read_into(b.info, offset, right)
        yield offset, left, right


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


def _opaque(left: bytearray, right: bytearray, begin: int, width: int) -> Differences:
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
