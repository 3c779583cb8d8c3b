"""BLAKE3 in Python alone, for the worker, in whose environment there is no other: chance is the hash of a few words.

From the paper "BLAKE3: one function, fast everywhere" (O'Connor, Aumasson, Neves, Wilcox-O'Hearn, 2020), without keys
and without output longer than 32 bytes. Slow, about a third of a millisecond for 64 bytes.
"""

import struct
from collections.abc import Sequence

_START = (
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
)  # fmt: skip
_PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
# Which four words of the state a step mixes: columns, then diagonals.
_STEPS = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip
_ROUNDS = 7
_BLOCK, _CHUNK = 64, 1024
_CHUNK_START, _CHUNK_END, _PARENT, _ROOT = 1, 2, 4, 8
_WORD = 0xFFFFFFFF

Words = Sequence[int]


def digest(data: bytes) -> bytes:
    """Return the BLAKE3 of data: 32 bytes."""
    return struct.pack("<8I", *_tree(data, 0, _ROOT))


def _tree(data: bytes, first_chunk: int, flags: int) -> Words:
    """Return the chaining value of a subtree.

    Args:
        data: What is below it.
        first_chunk: The number of its first chunk.
        flags: `_ROOT` for the whole tree, else 0.
    """
    if len(data) <= _CHUNK:
        return _chunk(data, first_chunk, flags)
    # On the left the largest power of two of chunks that leaves something for the right.
    chunks = 1 << ((len(data) - 1) // _CHUNK).bit_length() - 1
    left = _tree(data[: chunks * _CHUNK], first_chunk, 0)
    right = _tree(data[chunks * _CHUNK :], first_chunk + chunks, 0)
    return _compressed(_START, [*left, *right], 0, _BLOCK, flags | _PARENT)


def _chunk(data: bytes, number: int, flags: int) -> Words:
    value: Words = _START
    starts = range(0, max(len(data), 1), _BLOCK)
    for start in starts:
        block = data[start : start + _BLOCK]
        words = struct.unpack("<16I", block.ljust(_BLOCK, b"\0"))
        first = _CHUNK_START if start == 0 else 0
        last = _CHUNK_END | flags if start == starts[-1] else 0
        value = _compressed(value, words, number, len(block), first | last)
    return value


def _compressed(value: Words, words: Words, counter: int, length: int, flags: int) -> Words:
    low, high = counter & _WORD, counter >> 32
    state = [*value, *_START[:4], low, high, length, flags]
    for _ in range(_ROUNDS):
        for step, (a, b, c, d) in enumerate(_STEPS):
            _mix(state, a, b, c, d, words[2 * step], words[2 * step + 1])
        words = [words[place] for place in _PERMUTATION]
    return [state[place] ^ state[place + 8] for place in range(8)]


def _mix(state: list[int], a: int, b: int, c: int, d: int, x: int, y: int) -> None:
    for word, turn, back in ((x, 16, 12), (y, 8, 7)):
        state[a] = state[a] + state[b] + word & _WORD
        state[d] = _turned(state[d] ^ state[a], turn)
        state[c] = state[c] + state[d] & _WORD
        state[b] = _turned(state[b] ^ state[c], back)


def _turned(word: int, places: int) -> int:
    return (word >> places | word << 32 - places) & _WORD
