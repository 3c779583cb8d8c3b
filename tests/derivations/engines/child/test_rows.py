"""Rows as they come through the pipe: every bit of every format."""

import math
import struct

import numpy as np
import pytest

from dis_derivations.artifacts.float_rounding import rounded_bytes
from dis_derivations.engines.child.messages import Tensor
from dis_derivations.engines.child.rows import token_bytes, widened
from dis_derivations.runs.recording import DTYPES


def tensor(dtype: str, data: bytes, width: int) -> Tensor:
    return Tensor("logits", 0, "decode", None, dtype, (1, width), data)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_every_number_of_16_bits_comes_through_with_its_bits(dtype: str) -> None:
    every = np.arange(2**16, dtype="<u2")
    values = widened(tensor(dtype, every.tobytes(), 2**16))[0]
    numbers = ~np.isnan(values)
    kept = np.frombuffer(rounded_bytes(values, DTYPES[dtype]), dtype="<u2")
    assert np.array_equal(kept[numbers], every[numbers])
    assert int(numbers.sum()) == 2**16 - (2 * 127 if dtype == "bfloat16" else 2 * 1023)


def test_numbers_of_32_bits_come_through_with_their_bits() -> None:
    bits = np.random.default_rng(1).integers(0, 2**32, 4096, dtype=np.uint32).astype("<u4")
    values = widened(tensor("float32", bits.tobytes(), 4096))[0]
    kept = np.frombuffer(rounded_bytes(values, "F32"), dtype="<u4")
    numbers = ~np.isnan(values)
    assert np.array_equal(kept[numbers], bits[numbers])


def test_a_bfloat16_is_the_upper_half_of_a_float32() -> None:
    found = widened(tensor("bfloat16", struct.pack("<4H", 0x3F80, 0xC048, 0x0001, 0xFF80), 4))
    assert found.tolist() == [[1.0, -3.125, 2.0**-133, -math.inf]]


def test_token_ids_are_written_as_32_bits() -> None:
    assert token_bytes([1, 300, 2**31 - 1]) == struct.pack("<3i", 1, 300, 2**31 - 1)
