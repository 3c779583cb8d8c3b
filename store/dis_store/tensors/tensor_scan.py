"""Recognising a safetensors file in a stream of bytes, to hash each of its tensors on the way."""

from dataclasses import dataclass

from blake3 import blake3

from dis_store.digest import Digest
from dis_store.errors import InvalidInputError
from dis_store.tensors.safetensors_header import LENGTH_BYTES, TensorInfo, decode_header

MAX_SCANNED_HEADER_BYTES = 8 << 20
"""The longest header that is looked into while a file comes in: enough for fifty thousand tensors."""

_SHORTEST_HEADER = len(b"{}")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a file.

    Attributes:
        name: What the file calls it; any text that is not empty.
        dtype: One of `safetensors_header.DTYPE_BITS`.
        shape: Its dimensions; `()` is a scalar.
        offset: Its first byte, counted from the start of the file.
        length: Its bytes.
        blake3: The digest of its bytes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    length: int
    blake3: Digest


class TensorScan:
    """The tensors of a stream, if it turns out to be a safetensors file; none of any other.

    No stream is an error. Memory is bounded by what came, and by `longest_header`, whatever the header claims.

    Args:
        longest_header: A longer header is not looked into, and its file taken for one without tensors.
    """

    def __init__(self, longest_header: int = MAX_SCANNED_HEADER_BYTES) -> None:
        self._longest_header = longest_header
        self._head = bytearray()
        # Up to the first byte of the header, which tells nearly every other file from one of these.
        self._wanted = LENGTH_BYTES + 1
        self._layout: list[tuple[str, TensorInfo]] | None = None
        self._data_start = 0
        self._position = 0
        self._hash = blake3()
        self._found: list[Tensor] = []
        self._over = False

    @property
    def over(self) -> bool:
        """Whether it is certain that there are no tensors, so that nothing more needs to come."""
        return self._over

    def update(self, chunk: bytes) -> None:
        """Take the next bytes."""
        rest = memoryview(chunk)
        while self._layout is None and not self._over and rest:
            rest = self._take_head(rest)
        if self._layout is not None and not self._over:
            self._take_data(self._layout, rest, chunk)

    def finish(self) -> tuple[Tensor, ...]:
        """Return the tensors in the order of their places, now that nothing more comes."""
        complete = self._layout is not None and len(self._found) == len(self._layout)
        return tuple(self._found) if complete and not self._over else ()

    def _take_head(self, data: memoryview) -> memoryview:
        """Take what the header lacks; return the rest."""
        missing = self._wanted - len(self._head)
        self._head += data[:missing]
        if len(self._head) == self._wanted:
            if self._wanted == LENGTH_BYTES + 1:
                self._take_length()
            else:
                self._take_header()
        return data[missing:]

    def _take_length(self) -> None:
        length = int.from_bytes(self._head[:LENGTH_BYTES], "little")
        self._wanted = LENGTH_BYTES + length
        self._over = (
            not _SHORTEST_HEADER <= length <= self._longest_header or self._head[-1:] != b"{"
        )

    def _take_header(self) -> None:
        raw, self._head = bytes(self._head[LENGTH_BYTES:]), bytearray()
        try:
            header = decode_header(raw, data_size=None, name="a file")
        except InvalidInputError:
            self._over = True
            return
        self._layout = list(header.tensors.items())
        self._data_start = header.data_start

    def _take_data(
        self, layout: list[tuple[str, TensorInfo]], data: memoryview, chunk: bytes
    ) -> None:
        while len(self._found) < len(layout):
            name, info = layout[len(self._found)]
            part = data[: info.end - self._position]
            # The hash lets other threads run while it takes bytes, and not while it takes a view of some.
            self._hash.update(chunk if len(part) == len(chunk) else bytes(part))
            self._position += len(part)
            data = data[len(part) :]
            if self._position < info.end:
                return
            self._found.append(self._finished(name, info))
        # Bytes that belong to no tensor.
        self._over = len(data) > 0

    def _finished(self, name: str, info: TensorInfo) -> Tensor:
        digest, self._hash = Digest(self._hash.hexdigest()), blake3()
        return Tensor(
            name,
            info.dtype,
            info.shape,
            self._data_start + info.begin,
            info.end - info.begin,
            digest,
        )
