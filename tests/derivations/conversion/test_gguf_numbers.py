"""The numbers of GGUF tensors: each is what its block means, rounded to single precision once, then to bfloat16."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dis_derivations.artifacts.float_rounding import rounded_bytes
from dis_derivations.artifacts.gguf_header import GgufTensor
from dis_derivations.artifacts.gguf_types import FORMATS
from dis_derivations.conversion.gguf_model import ConvertedTensor
from dis_derivations.conversion.gguf_numbers import dequantised, row_blocks
from dis_store.errors import IntegrityError
from gguf_blocks import DECODERS, HALVES, single

PAGE = (Path(__file__).parents[3] / "docs/internals/formats/gguf.md").read_text("utf-8")
BY_NAME = {found.name: found for found in FORMATS.values()}


@st.composite
def blocks(draw: st.DrawFn, name: str) -> bytes:
    """A block of any integers, with scales that are finite."""
    size = BY_NAME[name].size
    data = bytearray(draw(st.binary(min_size=size, max_size=size)))
    for place in HALVES.get(name, ()):
        scale = draw(st.floats(width=16, allow_nan=False, allow_infinity=False))
        data[place : place + 2] = np.float16(scale).tobytes()
    if name in {"F32", "BF16"}:
        number = draw(st.floats(width=32, allow_nan=False, allow_infinity=False))
        data[:] = np.float32(number).tobytes()[-size:]
    return bytes(data)


def without_sign_of_zero(data: bytes) -> list[int]:
    """Fractions know one zero."""
    return [0 if bits == 1 << 31 else bits for bits in np.frombuffer(data, "<u4").tolist()]


@pytest.mark.parametrize("name", DECODERS)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_every_number_is_the_exact_one_rounded_once(name: str, data: st.DataObject) -> None:
    """So neither the order of operations nor a fused one can matter, whatever machine or library converts."""
    block = data.draw(blocks(name))
    found = dequantised(np.frombuffer(block, np.uint8)[None], name)
    expected = b"".join(map(single, DECODERS[name](block)))
    assert without_sign_of_zero(found.astype("<f4").tobytes()) == without_sign_of_zero(expected)


def test_every_format_that_is_known_has_a_test() -> None:
    assert set(DECODERS) == set(BY_NAME)


def test_the_worked_example_of_the_page_is_what_is_computed() -> None:
    """By exact fractions, and by what converts."""
    written = [
        bytes.fromhex(" ".join(block))
        for block in re.findall(r"\n\n    ([0-9a-f ]{30,})(?:\n    ([0-9a-f ]+))?\n\n", PAGE)
    ]
    block, stated = written
    exact = np.array([float(number) for number in DECODERS["Q4_1"](block)])
    assert exact[15] == exact[16] == 0.500732421875
    assert rounded_bytes(exact, "BF16") == stated
    found = dequantised(np.frombuffer(block, np.uint8)[None], "Q4_1")
    assert rounded_bytes(found.astype(np.float64), "BF16") == stated


def a_tensor(
    data: bytes, shape: tuple[int, ...], name: str, heads: int | None = None
) -> list[list[float]]:
    source = GgufTensor("t", shape, BY_NAME[name], begin=3)
    file = np.frombuffer(b"abc" + data + b"x", np.uint8)

    def read_into(buffer: NDArray[np.uint8], begin: int) -> None:
        buffer[:] = file[begin : begin + buffer.size]

    found: list[list[float]] = np.concatenate(
        list(row_blocks(ConvertedTensor(source, heads), read_into))
    ).tolist()
    return found


def test_rows_that_were_laid_out_for_pairs_come_apart_into_halves() -> None:
    """Two heads of four rows: the file has 0 2 | 1 3 of each head as neighbours."""
    rows = np.arange(8, dtype="<f4")
    assert a_tensor(rows.tobytes(), (8, 1), "F32", heads=2) == [
        [0],
        [2],
        [1],
        [3],
        [4],
        [6],
        [5],
        [7],
    ]
    assert a_tensor(rows.tobytes(), (8, 1), "F32") == [[float(row)] for row in range(8)]


def test_a_vector_is_one_row() -> None:
    assert a_tensor(np.arange(4, dtype="<f4").tobytes(), (4,), "F32") == [[0, 1, 2, 3]]


@pytest.mark.parametrize(
    "number",
    [float("nan"), float("inf"), -float("inf"), 3.4e38],
    ids=["nan", "inf", "-inf", "too large"],
)
def test_a_number_that_no_bfloat16_is_near_is_refused(number: float) -> None:
    with pytest.raises(IntegrityError, match="t holds a number that is not finite"):
        a_tensor(np.array([1, number], "<f4").tobytes(), (2,), "F32")


def test_the_largest_number_that_has_a_bfloat16_is_taken() -> None:
    largest = np.frombuffer((0x7F7F7FFF).to_bytes(4, "little"), "<f4")
    ((found,),) = a_tensor(largest.tobytes(), (1,), "F32")
    assert rounded_bytes(np.array([found]), "BF16") == (0x7F7F).to_bytes(2, "little")


def test_a_signalling_nan_is_refused_like_any_other() -> None:
    with pytest.raises(IntegrityError, match="not finite"):
        a_tensor((0x7F800001).to_bytes(4, "little"), (1,), "F32")


def test_a_damaged_scale_is_refused() -> None:
    with pytest.raises(IntegrityError, match="not finite"):
        a_tensor(b"\x00\x7c" + bytes(32), (32,), "Q8_0")


def test_many_rows_come_in_pieces_and_are_the_same() -> None:
    rows = np.arange(3 << 19, dtype="<f4").reshape(-1, 2)
    found = a_tensor(rows.tobytes(), rows.shape, "F32")
    assert found == rows.tolist()


def test_a_piece_may_end_within_a_head() -> None:
    """Heads of six rows and pieces of four: rows of one piece lie apart in the file."""
    rows = np.arange(18 << 18, dtype="<f4").reshape(18, -1)
    found = np.array(a_tensor(rows.tobytes(), rows.shape, "F32", heads=3))
    order = [6 * head + row for head in range(3) for row in (0, 2, 4, 1, 3, 5)]
    assert np.array_equal(found, rows[order])
