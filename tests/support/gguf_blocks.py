"""What blocks of numbers in GGUF files mean, number by number, in exact fractions.

Written from the format's definition (ggml-quants.c), one number at a time, so that it shares nothing with array code.
"""

import struct
from collections.abc import Callable, Mapping
from fractions import Fraction


def half(data: bytes) -> Fraction:
    """Return a half-precision number, which must be finite."""
    return Fraction(*struct.unpack("<e", data)[0].as_integer_ratio())


def _nibbles(data: bytes) -> list[int]:
    """Return the lower halves of all bytes, then the upper ones."""
    return [byte & 15 for byte in data] + [byte >> 4 for byte in data]


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


def _bits(data: bytes) -> list[int]:
    whole = int.from_bytes(data, "little")
    return [whole >> place & 1 for place in range(8 * len(data))]


def _f32(block: bytes) -> list[Fraction]:
    return [Fraction(*struct.unpack("<f", block)[0].as_integer_ratio())]


def _f16(block: bytes) -> list[Fraction]:
    return [half(block)]


def _bf16(block: bytes) -> list[Fraction]:
    return _f32(bytes(2) + block)


def _q4_0(block: bytes) -> list[Fraction]:
    return [half(block[:2]) * (value - 8) for value in _nibbles(block[2:])]


def _q4_1(block: bytes) -> list[Fraction]:
    return [half(block[:2]) * value + half(block[2:4]) for value in _nibbles(block[4:])]


def _q5_0(block: bytes) -> list[Fraction]:
    fifths = _bits(block[2:6])
    return [
        half(block[:2]) * ((value | fifth << 4) - 16)
        for value, fifth in zip(_nibbles(block[6:]), fifths, strict=True)
    ]


def _q5_1(block: bytes) -> list[Fraction]:
    fifths = _bits(block[4:8])
    return [
        half(block[:2]) * (value | fifth << 4) + half(block[2:4])
        for value, fifth in zip(_nibbles(block[8:]), fifths, strict=True)
    ]


def _q8_0(block: bytes) -> list[Fraction]:
    return [half(block[:2]) * _signed(byte) for byte in block[2:]]


def _pairs_of_bits(data: bytes) -> list[int]:
    """Return 256 numbers of two bits: of each 32 bytes the lowest pairs, then the next ones."""
    return [
        data[32 * part + index] >> shift & 3
        for part in range(2)
        for shift in (0, 2, 4, 6)
        for index in range(32)
    ]


def _q2_k(block: bytes) -> list[Fraction]:
    scales, values, large, small = (
        block[:16],
        _pairs_of_bits(block[16:80]),
        block[80:82],
        block[82:],
    )
    return [
        half(large) * (scales[index // 16] & 15) * value - half(small) * (scales[index // 16] >> 4)
        for index, value in enumerate(values)
    ]


def _q3_k(block: bytes) -> list[Fraction]:
    mask, low, packed, scale = block[:32], _pairs_of_bits(block[32:96]), block[96:108], block[108:]
    scales = [
        (packed[j % 8] >> 4 * (j // 8) & 15 | (packed[8 + j % 4] >> 2 * (j // 4) & 3) << 4) - 32
        for j in range(16)
    ]
    return [
        half(scale)
        * scales[index // 16]
        * (value - (0 if mask[index % 32] >> index // 32 & 1 else 4))
        for index, value in enumerate(low)
    ]


def _scale_and_least(packed: bytes, j: int) -> tuple[int, int]:
    if j < 4:
        return packed[j] & 63, packed[j + 4] & 63
    high = packed[j + 4]
    return high & 15 | packed[j - 4] >> 6 << 4, high >> 4 | packed[j] >> 6 << 4


def _of_groups(block: bytes, values: list[int]) -> list[Fraction]:
    groups = [_scale_and_least(block[4:16], j) for j in range(8)]
    return [
        half(block[:2]) * groups[index // 32][0] * value - half(block[2:4]) * groups[index // 32][1]
        for index, value in enumerate(values)
    ]


def _nibbles_of_groups(data: bytes) -> list[int]:
    return [value for start in range(0, 128, 32) for value in _nibbles(data[start : start + 32])]


def _q4_k(block: bytes) -> list[Fraction]:
    return _of_groups(block, _nibbles_of_groups(block[16:]))


def _q5_k(block: bytes) -> list[Fraction]:
    fifths, low = block[16:48], _nibbles_of_groups(block[48:])
    return _of_groups(
        block,
        [value | (fifths[index % 32] >> index // 32 & 1) << 4 for index, value in enumerate(low)],
    )


def _q6_k(block: bytes) -> list[Fraction]:
    low, high, scales, scale = block[:128], block[128:192], block[192:208], block[208:]
    found: list[Fraction] = []
    for index in range(256):
        part, within = divmod(index, 128)
        quarter, column = divmod(within, 32)
        four = low[64 * part + 32 * (quarter % 2) + column] >> 4 * (quarter // 2) & 15
        two = high[32 * part + column] >> 2 * quarter & 3
        found.append(half(scale) * _signed(scales[index // 16]) * ((four | two << 4) - 32))
    return found


DECODERS: Mapping[str, Callable[[bytes], list[Fraction]]] = {
    "F32": _f32,
    "F16": _f16,
    "BF16": _bf16,
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q2_K": _q2_k,
    "Q3_K": _q3_k,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}
"""The numbers of one block of each format, in order."""

# Where blocks have half-precision numbers; all else in them is integers of any value.
HALVES: Mapping[str, tuple[int, ...]] = {
    "F16": (0,),
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
}
"""The places of the half-precision numbers in a block."""


def single(value: Fraction) -> bytes:
    """Return a number rounded once to single precision, ties to even."""
    if value == 0:
        return bytes(4)
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, -126) - 23)
    rounded = round(magnitude / unit) * unit
    return struct.pack("<f", float(rounded if value > 0 else -rounded))
