"""Reading the header of a GGUF file, and refusing one that contradicts itself, in bounded time and memory.

A header is a list of named values, then one of named tensors with the places of their bytes
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Versions 2 and 3 are read, which have one layout, in
little-endian order. Every count in it is held against the bytes that are there before anything is made of it.
"""

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType

from dis_derivations.artifacts.gguf_types import FORMATS, BlockFormat, format_name
from dis_derivations.artifacts.regular_file import (
    UnreadableWeightsError,
    UnsupportedWeightsError,
    open_regular,
    unreadable,
)
from dis_store.environment import reading

MAGIC = b"GGUF"

MAX_HEADER_BYTES = 64 << 20
"""The longest header. Those of vocabularies of 256 thousand tokens have about 12 MiB."""

_MAX_ENTRIES = 1 << 16
_MAX_NAME_BYTES = 1 << 10
# Of all arrays together. A vocabulary of 256 thousand tokens comes with about a million merges and numbers.
_MAX_ITEMS = 1 << 22
_MAX_DIMENSIONS = 4
_MAX_LENGTH = 1 << 40
_MAX_ALIGNMENT = 1 << 16
_VERSIONS = (2, 3)

Scalar = int | float | bool | str
Value = Scalar | tuple[Scalar, ...]

_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}  # fmt: skip
# The fewest bytes that an entry of a list can take: name, type and value; name, dimension, type and place.
_LEAST_ENTRY, _LEAST_TENSOR, _LEAST_STRING = 13, 32, 8


@dataclass(frozen=True)
class GgufTensor:
    """A tensor that lies in a file.

    Attributes:
        shape: Rows first, as everywhere but in the file.
        format: How its numbers are written.
        begin: Of its first byte, in the file.
    """

    name: str
    shape: tuple[int, ...]
    format: BlockFormat
    begin: int

    @property
    def row_bytes(self) -> int:
        """The bytes of one row, which is all of a tensor of one dimension."""
        return self.shape[-1] // self.format.values * self.format.size

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return prod(self.shape[:-1])

    @property
    def end(self) -> int:
        """Of its last byte, and one."""
        return self.begin + self.rows * self.row_bytes


@dataclass(frozen=True)
class GgufHeader:
    """What a file says before its numbers begin.

    Attributes:
        values: By name. A single-precision number is the double of the same value.
        kinds: The type of each value, by its number in the format; of an array that of its items.
        tensors: By name.
    """

    values: Mapping[str, Value]
    kinds: Mapping[str, int]
    tensors: Mapping[str, GgufTensor]


def read_gguf_header(path: Path, *, name: str) -> GgufHeader:
    """Read the header of the file at `path`, which messages call `name`.

    Raises:
        UnreadableWeightsError: It cannot be read, is truncated, malformed or contradicts itself.
        UnsupportedWeightsError: It is of another version or byte order, or has a tensor whose format is not known.
        IntegrityError: The disk does not give what is in it.
    """
    with open_regular(path, name=name) as file:
        try:
            with reading(path):
                size = os.fstat(file.fileno()).st_size
                head = file.read(min(size, MAX_HEADER_BYTES))
        except OSError as error:
            raise unreadable(name, error) from error
    return decode_gguf_header(head, size=size, name=name)


def decode_gguf_header(head: bytes, *, size: int, name: str) -> GgufHeader:
    """Check the header at the beginning of `head`.

    Args:
        head: The first bytes of the file, `MAX_HEADER_BYTES` of them or all.
        size: The bytes of the file.
        name: What messages call it.

    Raises:
        UnreadableWeightsError, UnsupportedWeightsError: As `read_gguf_header`.
    """
    cursor = _Cursor(head, name)
    if cursor.take(4) != MAGIC:
        raise cursor.refusal("it does not begin with GGUF")
    version = cursor.number("I")
    if version not in _VERSIONS:
        order = version != 0 and version & 0xFFFF == 0
        what = "of big-endian byte order" if order else f"of version {version} of the format"
        raise UnsupportedWeightsError(
            f"{name} cannot be converted",
            cause=f"it is {what}; versions 2 and 3 are read, little-endian",
        )
    tensor_count = cursor.count(_LEAST_TENSOR, _MAX_ENTRIES, "tensors")
    value_count = cursor.count(_LEAST_ENTRY, _MAX_ENTRIES, "values")
    values: dict[str, Value] = {}
    kinds: dict[str, int] = {}
    for _ in range(value_count):
        key = cursor.name()
        if key in values:
            raise cursor.refusal(f"it has the value {key!r} twice")
        kinds[key], values[key] = _value(cursor, key)
    described = [_tensor(cursor) for _ in range(tensor_count)]
    start = cursor.aligned(_alignment(cursor, values, kinds))
    tensors = _placed(cursor, described, start, size)
    return GgufHeader(MappingProxyType(values), MappingProxyType(kinds), MappingProxyType(tensors))


class _Cursor:
    """A place in the bytes of a header that never goes beyond them."""

    def __init__(self, data: bytes, name: str) -> None:
        self._data = data
        self._name = name
        self._at = 0
        self._items = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def refusal(self, cause: str) -> UnreadableWeightsError:
        return UnreadableWeightsError(
            f"{self._name} is not a GGUF file that can be read",
            cause=cause,
            hint="get the file again from its publisher",
        )

    def take(self, count: int) -> bytes:
        if count > self.left:
            too_long = len(self._data) >= MAX_HEADER_BYTES
            raise self.refusal(
                f"its header has more than {MAX_HEADER_BYTES >> 20} MiB"
                if too_long
                else "it is truncated"
            )
        self._at += count
        return self._data[self._at - count : self._at]

    def numbers(self, letter: str, count: int) -> tuple[int | float, ...]:
        layout = struct.Struct(f"<{count}{letter}")
        return layout.unpack(self.take(layout.size))

    def number(self, letter: str) -> int:
        return int(self.numbers(letter, 1)[0])

    def count(self, least_bytes: int, most: int, what: str) -> int:
        """Return a count of things that take so many bytes at least, and of which there may be so many."""
        count = self.number("Q")
        if count > most:
            raise self.refusal(f"it claims to have {count} {what}, and {most} are the most")
        if count * least_bytes > self.left:
            raise self.refusal(f"it claims to have {count} {what}, for which it is too short")
        return count

    def items(self, least_bytes: int, key: str) -> int:
        """Return how many items an array has."""
        count = self.count(least_bytes, _MAX_ITEMS - self._items, f"items of {key}")
        self._items += count
        return count

    def text(self, most: int) -> str:
        data = self.take(self.count(1, most, "bytes of a text"))
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.refusal("a text in it is not UTF-8") from error

    def name(self) -> str:
        name = self.text(_MAX_NAME_BYTES)
        if not name or not name.isprintable():
            raise self.refusal(f"a name in it is {name[:40]!r}")
        return name

    def aligned(self, alignment: int) -> int:
        """Return the first multiple of `alignment` from here on."""
        return -(-self._at // alignment) * alignment


def _value(cursor: _Cursor, key: str) -> tuple[int, Value]:
    """Return the type of a value, and the value."""
    kind = cursor.number("I")
    if kind != _ARRAY:
        return kind, _items(cursor, key, kind, 1)[0]
    kind = cursor.number("I")
    # A string has eight bytes at least, and what is unknown is refused below.
    width = _LEAST_STRING if kind == _STRING else struct.calcsize(_NUMBERS.get(kind, "B"))
    return kind, _items(cursor, key, kind, cursor.items(width, key))


def _items(cursor: _Cursor, key: str, kind: int, count: int) -> tuple[Scalar, ...]:
    if kind == _STRING:
        return tuple(cursor.text(MAX_HEADER_BYTES) for _ in range(count))
    if kind == _ARRAY:
        raise cursor.refusal(f"{key} is an array of arrays")
    if kind not in _NUMBERS:
        raise cursor.refusal(f"{key} is of type {kind}, which there is not")
    numbers = cursor.numbers(_NUMBERS[kind], count)
    if kind != _BOOL:
        return numbers
    if not set(numbers) <= {0, 1}:
        raise cursor.refusal(f"{key} is neither true nor false")
    return tuple(number == 1 for number in numbers)


@dataclass(frozen=True)
class _Described:
    """A tensor as the header has it: its place is counted from where the numbers begin."""

    name: str
    shape: tuple[int, ...]
    format: BlockFormat
    offset: int


def _tensor(cursor: _Cursor) -> _Described:
    name = cursor.name()
    dimensions = cursor.number("I")
    if not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise cursor.refusal(f"tensor {name!r} has {dimensions} dimensions")
    shape = tuple(int(length) for length in cursor.numbers("Q", dimensions))[::-1]
    if prod(shape) > _MAX_LENGTH or 0 in shape:
        raise cursor.refusal(f"tensor {name!r} has the shape {list(shape)}")
    number = cursor.number("I")
    found = FORMATS.get(number)
    if found is None:
        raise UnsupportedWeightsError(
            f"tensor {name!r} cannot be converted",
            cause=f"its numbers are written as {format_name(number)}; "
            f"known are {', '.join(each.name for each in FORMATS.values())}",
            hint="use a version of the model in one of these, or in safetensors",
        )
    if found.row_bytes(shape[-1]) is None:
        raise cursor.refusal(
            f"tensor {name!r} has rows of {shape[-1]} numbers, not whole {found.name} blocks"
        )
    return _Described(name, shape, found, cursor.number("Q"))


def _alignment(cursor: _Cursor, values: Mapping[str, Value], kinds: Mapping[str, int]) -> int:
    alignment = values.get("general.alignment", 32)
    if kinds.get("general.alignment", 4) != 4 or not isinstance(alignment, int):  # noqa: PLR2004 - uint32
        raise cursor.refusal("its general.alignment is no uint32")
    if not 8 <= alignment <= _MAX_ALIGNMENT or alignment & (alignment - 1):  # noqa: PLR2004 - the format's least
        raise cursor.refusal(f"its general.alignment is {alignment}")
    return alignment


def _placed(
    cursor: _Cursor, described: list[_Described], start: int, size: int
) -> dict[str, GgufTensor]:
    """Return the tensors at their places in the file, none of which overlap or lie outside."""
    tensors: dict[str, GgufTensor] = {}
    for each in described:
        if each.name in tensors:
            raise cursor.refusal(f"it has the tensor {each.name!r} twice")
        tensors[each.name] = GgufTensor(each.name, each.shape, each.format, start + each.offset)
    end = start
    for tensor in sorted(tensors.values(), key=lambda tensor: tensor.begin):
        if tensor.begin < end:
            raise cursor.refusal(f"tensor {tensor.name!r} begins within another one")
        if tensor.end > size:
            raise cursor.refusal(
                f"tensor {tensor.name!r} ends beyond the file, which may be truncated"
            )
        end = tensor.end
    return tensors
