"""Streams compressed with Zstandard: the same bytes every time, and read with bounded memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from dis_store.archives.zstd_frames import FrameFollower
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

    Reading raises `IntegrityError` where the compressed bytes are damaged or cut off.
    """
    start = b""
    while len(start) < len(MAGIC) and (piece := stream.read(len(MAGIC) - len(start))):
        start += piece
    whole = _Continued(start, stream)
    if start != MAGIC:
        yield cast("BinaryIO", whole)
        return
    import zstandard

    whole.follower = follower = FrameFollower()
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    # Across frames: what follows the first one must not be overlooked.
    with decompressor.stream_reader(
        cast("BinaryIO", whole), read_across_frames=True, closefd=False
    ) as reader:
        checked = _Checked(cast("BinaryIO", reader), follower, name, zstandard.ZstdError)
        yield cast("BinaryIO", checked)


class _Continued:
    """A stream whose first bytes were read already; the follower, if there is one, sees what is read."""

    def __init__(self, start: bytes, stream: BinaryIO) -> None:
        self._start = start
        self._stream = stream
        self.follower: FrameFollower | None = None

    def read(self, size: int) -> bytes:
        if self._start:
            taken, self._start = self._start[:size], self._start[size:]
        else:
            taken = self._stream.read(size)
        if self.follower is not None:
            self.follower.feed(taken)
        return taken


class _Checked:
    """A reader whose own errors become errors of ours, and that has ended only where a frame has."""

    def __init__(
        self, reader: BinaryIO, follower: FrameFollower, name: str, error: type[Exception]
    ) -> None:
        self._reader = reader
        self._follower = follower
        self._name = name
        self._error = error

    def read(self, size: int) -> bytes:
        try:
            data = self._reader.read(size)
        except self._error as error:
            raise IntegrityError(f"{self._name} is damaged", cause=str(error) or None) from error
        if not data and size and not self._follower.between_frames:
            raise IntegrityError(f"{self._name} is damaged", cause="it was cut off")
        return data
