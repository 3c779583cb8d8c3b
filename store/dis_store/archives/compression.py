"""Streams compressed with Zstandard: the same bytes every time, and read with bounded memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from dis_store.errors import IntegrityError

MAGIC = b"\x28\xb5\x2f\xfd"
LEVEL = 3
_MAX_WINDOW = 1 << 27


@contextmanager
def compressing(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Give a stream that compresses into another; complete when the block ends without an error."""
    import zstandard

    # Other numbers of threads make other bytes.
    compressor = zstandard.ZstdCompressor(level=LEVEL, threads=0, write_checksum=True)
    with compressor.stream_writer(stream, closefd=False) as packed:
        yield cast("BinaryIO", packed)


@contextmanager
def decompressing(stream: BinaryIO, name: str) -> Iterator[BinaryIO]:
    """Give the bytes of a stream, decompressed if it begins as one that is compressed.

    Args:
        stream: Read once, in order; a pipe is enough.
        name: What messages call it.

    Reading raises `IntegrityError` where the compressed bytes are damaged.
    """
    start = b""
    while len(start) < len(MAGIC) and (piece := stream.read(len(MAGIC) - len(start))):
        start += piece
    whole = _Continued(start, stream)
    if start != MAGIC:
        yield cast("BinaryIO", whole)
        return
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    # Across frames: what follows the first one must not be overlooked.
    with decompressor.stream_reader(
        cast("BinaryIO", whole), read_across_frames=True, closefd=False
    ) as reader:
        yield cast("BinaryIO", _Checked(cast("BinaryIO", reader), name, zstandard.ZstdError))


class _Continued:
    """A stream whose first bytes were read already."""

    def __init__(self, start: bytes, stream: BinaryIO) -> None:
        self._start = start
        self._stream = stream

    def read(self, size: int) -> bytes:
        if self._start:
            taken, self._start = self._start[:size], self._start[size:]
            return taken
        return self._stream.read(size)


class _Checked:
    """A reader whose own errors become errors of ours."""

    def __init__(self, reader: BinaryIO, name: str, error: type[Exception]) -> None:
        self._reader = reader
        self._name = name
        self._error = error

    def read(self, size: int) -> bytes:
        try:
            return self._reader.read(size)
        except self._error as error:
            raise IntegrityError(f"{self._name} is damaged", cause=str(error) or None) from error
