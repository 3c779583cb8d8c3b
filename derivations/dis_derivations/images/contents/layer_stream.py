"""The tar stream of a layer, unpacked piece by piece and within limits: nobody vouches for what is in it."""

import gzip
import os
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from dis_store.errors import IntegrityError

_PIECE = 1 << 18
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"


class UnreadableError(Exception):
    """A layer, or a list in it, cannot be read; the text says why, in words that follow `could not be read:`."""


@dataclass(frozen=True)
class Limits:
    """How much of layers is read at most.

    Attributes:
        unpacked_bytes: Of one layer.
        small_bytes: So many are read of any layer, however little its blob has.
        growth: How often its own size a larger one may be when it is unpacked.
        members: Of one layer; what extends a header counts as well.
        seconds: Of all layers that a comparison reads, together.
        list_bytes: Of one list of packages.
        packages: Of all lists of one layer.
        name_bytes: Of the names in one layer that are kept.
    """

    unpacked_bytes: int = 1 << 35
    small_bytes: int = 1 << 30
    growth: int = 200
    members: int = 2_000_000
    seconds: float = 300.0
    list_bytes: int = 64 << 20
    packages: int = 100_000
    name_bytes: int = 32 << 20


class Allowance:
    """What is left of the time for a comparison. It begins when the first layer is opened.

    Args:
        limits: How much is read.
        clock: Tells the seconds.
    """

    def __init__(
        self, limits: Limits | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = Limits() if limits is None else limits
        self._clock = clock
        self._end: float | None = None

    def check_time(self) -> None:
        """Refuse to go on when the time is over.

        Raises:
            UnreadableError: It is.
        """
        if self._end is None:
            self._end = self._clock() + self.limits.seconds
        elif self._clock() > self._end:
            raise UnreadableError(f"reading layers took more than {self.limits.seconds:g} seconds")


class LayerStream:
    """The bytes of a tar stream in order, as many as are asked for and no more than are allowed.

    Args:
        stream: Where they come from.
        allowance: How long it may take.
        most: How many there may be.
        seekable: The bytes that a file has which is passed over by seeking; None for a stream that must be read.
    """

    def __init__(
        self, stream: BinaryIO, allowance: Allowance, most: int, seekable: int | None = None
    ) -> None:
        self._stream = stream
        self._allowance = allowance
        self._most = most
        self._seekable = seekable
        self._came = 0

    def read(self, size: int) -> bytes:
        """Return the next bytes.

        Raises:
            UnreadableError: There are not so many.
        """
        self._count(size)
        data = self._stream.read(size)
        while len(data) < size:
            more = self._stream.read(size - len(data))
            if not more:
                raise UnreadableError("it ends too early")
            data += more
        return data

    def read_or_end(self, size: int) -> bytes:
        """Return the next bytes, or none where the stream has ended.

        Raises:
            UnreadableError: It ends in between.
        """
        self._allowance.check_time()
        start = self._stream.read(1)
        if not start:
            return b""
        self._count(1)
        return start + self.read(size - 1)

    def skip(self, size: int) -> None:
        """Pass over the next bytes.

        Raises:
            UnreadableError: There are not so many.
        """
        if self._seekable is not None:
            if self._came + size > self._seekable:
                raise UnreadableError("it ends too early")
            self._count(size)
            self._stream.seek(size, os.SEEK_CUR)
            return
        while size:
            piece = min(size, _PIECE)
            self.read(piece)
            size -= piece

    def _count(self, size: int) -> None:
        self._came += size
        if self._came > self._most:
            raise UnreadableError(f"it unpacks to more than {self._most} bytes")
        self._allowance.check_time()


@contextmanager
def opened_layer(path: Path, packing: str, allowance: Allowance) -> Iterator[LayerStream]:
    """Give the tar stream of a layer.

    Args:
        path: Of its blob.
        packing: `none`, `gzip` or `zstd`, as the manifest says.
        allowance: How much may be read.

    Raises:
        UnreadableError: It is not packed so, it is damaged, or it cannot be opened.
    """
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            allowance.check_time()
            yield from _unpacked(file, packing, allowance)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UnreadableError(f"it is damaged ({error})") from error
    except IntegrityError as error:
        raise UnreadableError(error.cause or error.what) from error
    except OSError as error:
        raise UnreadableError(error.strerror or str(error)) from error


def _unpacked(file: BinaryIO, packing: str, allowance: Allowance) -> Iterator[LayerStream]:
    start = file.read(4)
    file.seek(0)
    size, limits = os.fstat(file.fileno()).st_size, allowance.limits
    most = min(limits.unpacked_bytes, max(limits.small_bytes, limits.growth * size))
    watched = cast("BinaryIO", _Watched(file, allowance))
    if packing == "gzip":
        if not start.startswith(_GZIP):
            raise UnreadableError("it is not compressed with gzip, as its image says")
        with gzip.GzipFile(fileobj=watched, mode="rb") as stream:
            yield LayerStream(cast("BinaryIO", stream), allowance, most)
    elif packing == "zstd":
        if start != _ZSTD and start[1:] != _SKIPPABLE:
            raise UnreadableError("it is not compressed with Zstandard, as its image says")
        from dis_store.archives.compression import decompressing

        with decompressing(watched, "the layer") as stream:
            yield LayerStream(stream, allowance, most)
    else:
        yield LayerStream(file, allowance, most, size)


class _Watched:
    """A file that is read only while there is time: a decompressor may read much and give nothing."""

    def __init__(self, file: BinaryIO, allowance: Allowance) -> None:
        self._file = file
        self._allowance = allowance

    def read(self, size: int = -1) -> bytes:
        self._allowance.check_time()
        return self._file.read(size if size >= 0 else _PIECE)
