"""A test of the machine before the first token: does each operation give the bits it must?

BLAS libraries have been wrong on new CPUs, and a library in the process may have switched
subnormals off. A wrong bit there would silently make another result; here it names the operation.
"""

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from math import ldexp, prod

import numpy as np
from numpy.typing import NDArray

from dis_derivations.engines.reference.attention import (
    HeadLayout,
    HeadRounding,
    KeyValueCache,
    attend,
)
from dis_derivations.engines.reference.cache_attention import visible
from dis_derivations.engines.reference.drawing import token_weights
from dis_derivations.engines.reference.elementary_functions import (
    exp_of_negative,
    silu,
    sine_and_cosine,
)
from dis_derivations.engines.reference.exact_matmul import ExactWeights
from dis_derivations.engines.reference.fixed_point import Floats, row_exponents, split_rows
from dis_derivations.engines.reference.normalization import RootMeanSquare, RowNormalization
from dis_derivations.engines.reference.rotary import RowRotation, rotate
from dis_derivations.engines.reference.rotary_scaling import inverse_frequencies
from dis_derivations.engines.reference.row_attention import RowAttention, SeenPositions
from dis_derivations.engines.reference.row_projection import RowProjection
from dis_derivations.engines.reference.weights import Linear
from dis_store.errors import BuildError

_HINT = "compute on another machine, or with another numpy or BLAS; report which one was wrong"
_SAMPLED_OUTPUTS = 16


def check_operations() -> None:
    """Check every operation against its known answer.

    Raises:
        BuildError: An operation gives other bits than it must; the message names it.
    """
    for name, operation in _OPERATIONS.items():
        if digest_of(operation()) != KNOWN_DIGESTS[name]:
            raise _wrong(name, "its bits are not those of IEEE-754 doubles")
    for inputs, outputs, rows in ((64, 64, 1), (129, 67, 3), (576, 192, 2), (1536, 96, 17)):
        weights = ExactWeights(sample((outputs, inputs), 5))
        check_product(weights, rows, f"matrix product {rows} x {inputs} x {outputs}")


def check_product(weights: ExactWeights, rows: int, name: str) -> None:
    """Check a product with these weights against integer arithmetic, on some of its outputs.

    Raises:
        BuildError: The BLAS gives another result.
    """
    outputs, inputs = weights.values.shape
    bits, weight_bits = weights.budget.activation_bits, weights.budget.weight_bits
    x = sample((rows, inputs), 11)
    project = RowProjection([Linear(weights, None)])
    found = weights.multiply(x)
    one_by_one = np.array([project(0, row).copy() for row in x])
    chosen = np.arange(_SAMPLED_OUTPUTS) * (outputs - 1) // (_SAMPLED_OUTPUTS - 1)
    high, low = np.empty_like(x), np.empty_like(x)
    split_rows(x, bits, high, low)
    unit = row_exponents(x) - bits
    columns = weights.values[chosen]
    column_unit = row_exponents(columns) - weight_bits
    integers = np.ldexp(columns, -column_unit).astype(np.int64).T
    expected = np.ldexp(
        (np.ldexp(high, -unit).astype(np.int64) @ integers).astype(np.float64), unit
    )
    expected += np.ldexp(
        (np.ldexp(low, bits + 1 - unit).astype(np.int64) @ integers).astype(np.float64),
        unit - bits - 1,
    )
    expected = np.ldexp(expected, column_unit.T)
    if not all(np.array_equal(expected, part[:, chosen]) for part in (found, one_by_one)):
        raise _wrong(name, "the BLAS does not agree with integer arithmetic")


def sample(shape: tuple[int, ...], seed: int) -> Floats:
    """Return numbers in [-1, 1) made by integer arithmetic, the same everywhere."""
    count = prod(shape)
    state = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15 + 2 * seed)
    state ^= state >> np.uint64(29)
    state *= np.uint64(0xBF58476D1CE4E5B9)
    state ^= state >> np.uint64(32)
    numbers: Floats = (
        np.right_shift(state, np.uint64(11)).astype(np.float64) * ldexp(1.0, -52) - 1.0
    )
    return numbers.reshape(shape)


def digest_of(arrays: Iterable[NDArray[np.float64]]) -> str:
    """Return a digest of the bits of some arrays."""
    state = sha256()
    for array in arrays:
        state.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return state.hexdigest()[:32]


def _subnormals() -> list[Floats]:
    tiny = np.array([5e-324, 2.5e-310, -2.2250738585072014e-308])
    narrow = np.array([1, 0x007FFFFF, 0x80000001], dtype=np.uint32).view(np.float32)
    return [tiny + tiny, tiny * 0.5, tiny * ldexp(1.0, 60), narrow.astype(np.float64)]


def _basic_arithmetic() -> list[Floats]:
    x, y = sample((257,), 1), sample((257,), 2)
    halves = np.arange(-20.0, 20.0) / 2
    mantissas, exponents = np.frexp(x * ldexp(1.0, -200))
    return [
        x + y,
        x - y,
        x * y,
        x / y,
        np.sqrt(np.abs(x)),
        np.rint(halves),
        mantissas,
        exponents.astype(np.float64),
        np.ldexp(x, np.arange(257, dtype=np.int32)),
        np.maximum(x, y),
    ]


def _exponential() -> list[Floats]:
    return [exp_of_negative(sample((1031,), 3) * 48.0)]


def _silu() -> list[Floats]:
    return [silu(sample((1031,), 4) * 50.0)]


def _sine_and_cosine() -> list[Floats]:
    return list(sine_and_cosine(np.abs(sample((1031,), 6)) * 100000.0))


def _normalization() -> list[Floats]:
    return [RootMeanSquare(sample((193,), 7), 1e-5)(sample((5, 193), 8) * 1000.0)]


def _normalization_of_one_row() -> list[Floats]:
    normalize, weight = RowNormalization(193, 1e-5), sample((193,), 7)
    return [normalize(row, weight).copy() for row in sample((5, 193), 8) * 1000.0]


def _rotation() -> list[Floats]:
    heads = sample((3, 2, 16), 9)
    rotate(heads, *_angles_to_turn_by())
    return [heads]


def _rotation_of_one_row() -> list[Floats]:
    heads, turn = sample((3, 2, 16), 9), RowRotation(2, 16)
    for row, cosines, sines in zip(heads, *_angles_to_turn_by(), strict=True):
        turn.turn_by(cosines, sines)
        turn(row.reshape(2, 2, 8))
    return [heads]


def _angles_to_turn_by() -> tuple[Floats, Floats]:
    frequencies = np.array([float(value) for value in inverse_frequencies(10000.0, 16)])
    sines, cosines = sine_and_cosine(np.multiply.outer(np.arange(3.0), frequencies))
    return cosines, sines


def _attention() -> list[Floats]:
    return _attended(0, None)


def _attention_in_a_window() -> list[Floats]:
    # Rows 1097 … 1099 see nothing before position 1024, so the first block is left out.
    seen = visible(np.arange(1097, 1100)[:, None], np.arange(1024, 1100), 50)
    return _attended(1024, np.repeat(np.where(seen, 0.0, -np.inf), 2, axis=0))


def _attended(start: int, mask: Floats | None) -> list[Floats]:
    layout = HeadLayout(queries=4, keys=2, size=16)
    heads = sample((1100, layout.total, 16), 10)
    queries, keys, values, scales = HeadRounding(layout)(heads)
    asked = queries[-3:].reshape(3, 2, 2, 16).swapaxes(0, 1).reshape(1, 2, 6, 16) * 8.0
    keys, values = (part[start:].swapaxes(0, 1)[None] for part in (keys, values))
    return [attend(asked, keys, values, scales[start:].T[None], mask)]


def _attention_of_one_row() -> list[Floats]:
    return _attended_row_by_row(None)


def _attention_of_one_row_in_a_window() -> list[Floats]:
    return _attended_row_by_row(50)


def _attended_row_by_row(window: int | None) -> list[Floats]:
    """Return what `_attended` does. Without a window its rows see the last position, too."""
    layout, rows = HeadLayout(queries=4, keys=2, size=16), range(1097, 1100)
    heads = sample((1100, layout.total, 16), 10)
    cache, row = KeyValueCache(1, 1100, layout), np.empty((layout.total, 16))
    _, keys, values, scales = HeadRounding(layout)(heads.copy())
    cache.keys[0], cache.values[0] = keys.swapaxes(0, 1), values.swapaxes(0, 1)
    cache.value_scales[0] = scales.T
    attention, answers = RowAttention(layout, row), np.empty((2, 3, 2, 16))
    for number in rows:
        position = rows[-1] if window is None else number
        row[...] = heads[position]
        row[: layout.queries] = heads[number, : layout.queries] * 8.0
        attention.keep(cache, 0, position)
        answer = attention.attend(SeenPositions(layout, 0, position, window), cache)
        answers[:, number - rows[0]] = answer.reshape(2, 2, 16)
    return [answers]


def _sampling() -> list[Floats]:
    return [token_weights(sample((1031,), 12) * 30.0, 0.7).astype(np.float64)]


_OPERATIONS: Mapping[str, Callable[[], Iterable[Floats]]] = {
    "subnormal numbers": _subnormals,
    "basic arithmetic": _basic_arithmetic,
    "exponential": _exponential,
    "silu": _silu,
    "sine and cosine": _sine_and_cosine,
    "normalisation": _normalization,
    "normalisation of one row": _normalization_of_one_row,
    "rotary embedding": _rotation,
    "rotary embedding of one row": _rotation_of_one_row,
    "attention": _attention,
    "attention in a window": _attention_in_a_window,
    "attention of one row": _attention_of_one_row,
    "attention of one row in a window": _attention_of_one_row_in_a_window,
    "sampling": _sampling,
}

KNOWN_DIGESTS: Mapping[str, str] = {
    "subnormal numbers": "d2669f620fe34991ad539b1f2b321bf9",
    "basic arithmetic": "5425497d4347ed16750b77b062eecb67",
    "exponential": "d2097950f664f8bceea2ac350a05126a",
    "silu": "b9c374e2af3c132f0ba0616112d9d748",
    "sine and cosine": "1154e5ec3a5283a364482a6fb4c1a300",
    "normalisation": "4cdb350667896eef6b39acbf00405183",
    "normalisation of one row": "4cdb350667896eef6b39acbf00405183",
    "rotary embedding": "3b5db09af3d18e1f80b82663130a5cbb",
    "rotary embedding of one row": "3b5db09af3d18e1f80b82663130a5cbb",
    "attention": "fc86e7ae0863bcb1fc584b4717ae87f6",
    "attention in a window": "71c38bdf38b0376a4d8445b86f5d246a",
    "attention of one row": "fc86e7ae0863bcb1fc584b4717ae87f6",
    "attention of one row in a window": "71c38bdf38b0376a4d8445b86f5d246a",
    "sampling": "ec247a006ff75f2465f090504c9548f8",
}


def _wrong(name: str, cause: str) -> BuildError:
    return BuildError(
        f"this machine fails the reference engine's self-test: {name}", cause=cause, hint=_HINT
    )
