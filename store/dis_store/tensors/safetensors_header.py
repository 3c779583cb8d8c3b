"""The header of a safetensors file, read so strictly that no two readers can see two files in it.

Layout: 8 bytes of header length (little-endian), the header (one JSON object), then the tensors'
bytes. A header is believed only when every byte of the file is accounted for: tensors follow each
other without holes or overlap from the first byte of data to the last byte of the file, and each
is exactly as long as its shape and dtype say.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, BinaryIO

from dis_store import strict_json
from dis_store.errors import InvalidInputError

MAX_HEADER_BYTES = 100_000_000
"""What the reference implementation of the format accepts."""

MAX_NAME_LENGTH = 1024
MAX_RANK = 64
# Parsing a header must not cost far more memory than the header has bytes: a tensor brings about a
# dozen of `[{,:`, so this admits hundreds of thousands of tensors but not 100 MB of `[],[],[],…`.
MAX_SEPARATORS = 4_000_000

_MAX_SIZE = 2**64 - 1
LENGTH_BYTES = 8
"""What stands before the header: its length, little-endian."""

_FIELDS = frozenset({"dtype", "shape", "data_offsets"})
_METADATA = "__metadata__"
_SEPARATORS = (b"[", b"{", b",", b":")

DTYPE_BITS: Mapping[str, int] = MappingProxyType(
    {
        "BOOL": 8,
        "F4": 4,
        "F6_E2M3": 6,
        "F6_E3M2": 6,
        "U8": 8,
        "I8": 8,
        "F8_E5M2": 8,
        "F8_E4M3": 8,
        "F8_E8M0": 8,
        "F8_E4M3FNUZ": 8,
        "F8_E5M2FNUZ": 8,
        "I16": 16,
        "U16": 16,
        "F16": 16,
        "BF16": 16,
        "I32": 32,
        "U32": 32,
        "F32": 32,
        "C64": 64,
        "F64": 64,
        "I64": 64,
        "U64": 64,
    }
)
"""Every dtype of the format with its size in bits."""


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of a file.

    Attributes:
        dtype: A key of `DTYPE_BITS`.
        shape: Its dimensions; `()` is a scalar.
        begin: Its first byte, counted from the start of the data.
        end: One past its last byte.
    """

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class SafetensorsHeader:
    """What a safetensors file says it holds.

    Attributes:
        metadata: The file's `__metadata__`; empty when it has none.
        tensors: The tensors by name, in order of their place in the file.
        data_start: Where the data begins, in bytes from the start of the file.
    """

    metadata: Mapping[str, str]
    tensors: Mapping[str, TensorInfo]
    data_start: int


def read_from(
    file: BinaryIO, size: int, *, name: str, error: type[InvalidInputError] = InvalidInputError
) -> SafetensorsHeader:
    """Read the header of an open file of `size` bytes, which messages call `name`.

    Raises:
        InvalidInputError: The file is truncated, contradicts itself or is not safetensors; `error` may name another
            class.
        OSError: It cannot be read.
    """
    checks = _Checks(name, error)
    prefix = file.read(LENGTH_BYTES)
    if len(prefix) < LENGTH_BYTES:
        raise checks.truncated(
            f"it has {len(prefix)} bytes, and the length of its header alone takes 8"
        )
    length = int.from_bytes(prefix, "little")
    if length > MAX_HEADER_BYTES:
        raise checks.foreign(
            f"its first 8 bytes announce a header of {length} bytes; 100 MB is the most"
        )
    if length == 0:
        raise checks.foreign("its first 8 bytes announce an empty header")
    first = file.read(1)
    if first not in {b"{", b""}:
        raise checks.foreign("its header does not begin with an opening brace")
    there = size - LENGTH_BYTES
    if length > there:
        raise checks.truncated(f"its header takes {length} bytes, and {there} are there")
    raw = first + file.read(length - 1)
    if len(raw) != length:
        raise checks.truncated("it became shorter while it was read")
    return decode_header(raw, data_size=there - length, name=name, error=error)


def decode_header(
    raw: bytes,
    *,
    data_size: int | None,
    name: str,
    error: type[InvalidInputError] = InvalidInputError,
) -> SafetensorsHeader:
    """Check the header `raw` of a file called `name`.

    Args:
        raw: The header without its length.
        data_size: How many bytes of data follow; None where that is not known yet, and is for the caller to compare.
        name: What messages call the file.
        error: The class of what is raised.

    Raises:
        InvalidInputError: The header is malformed or does not account for every byte of data exactly once.
    """
    checks = _Checks(name, error)
    document = checks.document(raw)
    metadata = checks.metadata(document.pop(_METADATA, {}))
    tensors = {tensor: checks.tensor(tensor, value) for tensor, value in document.items()}
    in_order = sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end, item[0]))
    checks.layout(in_order, data_size)
    return SafetensorsHeader(
        metadata=MappingProxyType(metadata),
        tensors=MappingProxyType(dict(in_order)),
        data_start=LENGTH_BYTES + len(raw),
    )


class _Checks:
    """What a header must be, and the refusals of a file that is not so."""

    def __init__(self, name: str, error: type[InvalidInputError]) -> None:
        self._name = name
        self._error = error

    def document(self, raw: bytes) -> dict[str, Any]:
        separators = sum(raw.count(mark) for mark in _SEPARATORS)
        if separators > MAX_SEPARATORS:
            raise self.foreign(f"its header holds {separators} separators, more than any real one")
        document = strict_json.decode(raw, name=f"the header of {self._name}", error=self._error)
        if not isinstance(document, dict):
            raise self.foreign("its header is not a JSON object")
        return document

    def metadata(self, value: Any) -> dict[str, str]:
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self.foreign("its __metadata__ must map strings to strings")
        return value

    def tensor(self, tensor: str, value: Any) -> TensorInfo:
        if not 0 < len(tensor) <= MAX_NAME_LENGTH:
            raise self.foreign(
                f"a tensor's name has {len(tensor)} characters; 1 to {MAX_NAME_LENGTH} are allowed"
            )
        if not isinstance(value, dict) or value.keys() != _FIELDS:
            raise self.foreign(f"tensor {tensor!r} must have exactly dtype, shape, data_offsets")
        dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
        if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
            raise self.foreign(
                f"tensor {tensor!r} has the dtype {_short(dtype)}, which safetensors does not have"
            )
        if not _are_sizes(shape) or len(shape) > MAX_RANK:
            raise self.foreign(f"tensor {tensor!r} must have a shape of at most {MAX_RANK} sizes")
        if not _are_sizes(offsets) or len(offsets) != 2:  # noqa: PLR2004 - begin and end
            raise self.foreign(f"tensor {tensor!r} must have data_offsets of two byte positions")
        begin, end = offsets
        needed = _byte_length(dtype, shape)
        if needed is None or end - begin != needed:
            says = (
                "a fraction of a byte or more bytes than any file has"
                if needed is None
                else f"{needed} bytes"
            )
            raise self.lying(
                f"tensor {tensor!r} ({dtype} {shape}) takes {says}, and its offsets span {end - begin}"
            )
        return TensorInfo(dtype, tuple(shape), begin, end)

    def layout(self, in_order: list[tuple[str, TensorInfo]], data_size: int | None) -> None:
        position = 0
        for tensor, info in in_order:
            if info.begin != position:
                fault = (
                    "overlaps the one before it"
                    if info.begin < position
                    else "leaves a hole before it"
                )
                raise self.lying(
                    f"tensor {tensor!r} begins at byte {info.begin} of the data and {fault}, "
                    f"which ends at {position}"
                )
            if data_size is not None and info.end > data_size:
                raise self.truncated(
                    f"tensor {tensor!r} ends at byte {info.end} of the data, "
                    f"and {data_size} bytes of data are there"
                )
            position = info.end
        if data_size is not None and position != data_size:
            raise self.lying(
                f"{data_size - position} bytes after the last tensor belong to no tensor"
            )

    def truncated(self, cause: str) -> InvalidInputError:
        return self._error(
            f"{self._name} is truncated", cause=cause, hint="fetch the file again, completely"
        )

    def lying(self, cause: str) -> InvalidInputError:
        return self._error(
            f"the header of {self._name} is lying about its data",
            cause=cause,
            hint="do not use this file; get it from a source that you trust",
        )

    def foreign(self, cause: str) -> InvalidInputError:
        return self._error(
            f"{self._name} is not a safetensors file",
            cause=cause,
            hint="give the file that the model's publisher calls *.safetensors",
        )


def _are_sizes(value: Any) -> bool:
    # `True` is an int to Python; to JSON it is no number.
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _byte_length(dtype: str, shape: list[int]) -> int | None:
    """Return the bytes of a tensor, or None when they overflow 64 bits or end inside a byte."""
    bits = DTYPE_BITS[dtype]
    for size in shape:
        bits *= size
        if bits > _MAX_SIZE:
            return None
    return None if bits % 8 else bits // 8


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"  # noqa: PLR2004 - enough to recognise it
