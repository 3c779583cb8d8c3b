"""Compressed archives that attack whoever decompresses them, each named after its attack."""

import bz2
import gzip
import lzma
import struct
import zlib
from collections.abc import Callable, Mapping

import zstandard

# What becomes of a good archive, not compressed.
Attack = Callable[[bytes], bytes]
_MIB = 1 << 20


def gzipped(data: bytes) -> bytes:
    """Return one gzip member without a name and a time."""
    return gzip.compress(data, 6, mtime=0)


def zstd(data: bytes) -> bytes:
    """Return one zstd frame."""
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def _gzip_zeros(start: bytes, mebibytes: int) -> bytes:
    """Return a gzip member that begins well and goes on with zeros: a thousandth of their size."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    pieces = [packer.compress(start), *(packer.compress(bytes(_MIB)) for _ in range(mebibytes))]
    return b"".join([*pieces, packer.flush()])


def _zstd_zeros(start: bytes, mebibytes: int) -> bytes:
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    pieces = [packer.compress(start), *(packer.compress(bytes(_MIB)) for _ in range(mebibytes))]
    return b"".join([*pieces, packer.flush()])


def _with_flags(flags: int, extra: bytes) -> Attack:
    """Return a gzip member whose header says more."""

    def change(data: bytes) -> bytes:
        packed = gzipped(data)
        return packed[:3] + bytes([flags]) + packed[4:10] + extra + packed[10:]

    return change


def _frame(descriptor: int, rest: bytes) -> Attack:
    """Return a zstd frame with a header that claims what is not so."""
    return lambda _: b"\x28\xb5\x2f\xfd" + bytes([descriptor]) + rest


GZIP: Mapping[str, Attack] = {
    "gzip bomb after the archive": lambda data: _gzip_zeros(data, 512),
    "gzip bomb of a first member": lambda data: _gzip_zeros(data[:512], 512),
    "gzip bomb of nothing but zeros": lambda _: _gzip_zeros(b"", 512),
    "gzip bomb in a gzip bomb (CVE-2023-30551)": lambda _: gzipped(_gzip_zeros(b"", 256)),
    "ten thousand empty gzip members": lambda data: gzipped(data) + gzipped(b"") * 10_000 + b"x",
    "gzip in gzip": lambda data: gzipped(gzipped(data)),
    "gzip cut in its header": lambda data: gzipped(data)[:7],
    "gzip cut in its data": lambda data: gzipped(data)[:-20],
    "gzip cut in its checksum": lambda data: gzipped(data)[:-4],
    "gzip with a wrong checksum": lambda data: (
        gzipped(data)[:-8] + b"\0\0\0\0" + gzipped(data)[-4:]
    ),
    "gzip with a wrong length": lambda data: gzipped(data)[:-4] + struct.pack("<I", 7),
    "gzip of another method": lambda data: b"\x1f\x8b\x07" + gzipped(data)[3:],
    "gzip with a name that never ends": _with_flags(0x08, b""),
    "gzip with an extra field beyond its end": _with_flags(0x04, b"\xff\xff"),
    "gzip and something else after it": lambda data: gzipped(data) + b"trailing",
    "gzip and another archive after it": lambda data: gzipped(data) * 2,
    "gzip of half and half": lambda data: gzipped(data[:700]) + b"PK\x03\x04" + gzipped(data[700:]),
    "gzip of noise": lambda _: b"\x1f\x8b\x08" + bytes(range(256)) * 4,
    "zlib without gzip": zlib.compress,
    "gzip of a zip": lambda _: gzipped(b"PK\x03\x04" + bytes(999)),
}
"""For `.tar.gz`."""

ZSTD: Mapping[str, Attack] = {
    "zstd bomb after the archive": lambda data: _zstd_zeros(data, 2048),
    "zstd bomb of a first member": lambda data: _zstd_zeros(data[:512], 2048),
    "zstd bomb of nothing but zeros": lambda _: _zstd_zeros(b"", 2048),
    "zstd with a window of terabytes": _frame(0x00, b"\xf8" + bytes(99)),
    "zstd with a window of gigabytes": _frame(0x00, b"\xa8" + b"\x01\x00\x00"),
    "zstd that claims 16 EiB": _frame(0xE0, b"\xff" * 8 + b"\x01\x00\x00"),
    "zstd with a dictionary": _frame(0x23, b"\xde\xad\xbe\xef" + bytes(20)),
    "zstd with a reserved bit": _frame(0x28, bytes(20)),
    "zstd cut in its header": lambda data: zstd(data)[:5],
    "zstd cut in its data": lambda data: zstd(data)[:-20],
    "zstd with a wrong checksum": lambda data: zstd(data)[:-4] + b"\0\0\0\0",
    "zstd and something else after it": lambda data: zstd(data) + b"trailing",
    "zstd and another archive after it": lambda data: zstd(data) * 2,
    "zstd of another version": lambda data: b"\x27\xb5\x2f\xfd" + zstd(data)[4:],
    "zstd in zstd": lambda data: zstd(zstd(data)),
    "zstd of noise": lambda _: b"\x28\xb5\x2f\xfd" + bytes(range(256)) * 4,
}
"""For `.tar.zst`."""

HARMLESS: Mapping[str, Attack] = {
    "gzip with a path for a name": _with_flags(0x08, b"../outside/canary\0"),
    "gzip with a comment that steers a terminal": _with_flags(0x10, b"\x1b[2J\0"),
    "gzip with an extra field": _with_flags(0x04, b"\x04\x00evil"),
    "gzip with flags that mean nothing": _with_flags(0xE0, b""),
}
"""Gzip headers that say what nobody asks: the archive in them is read."""

UNKNOWN: Mapping[str, Attack] = {"bzip2": bz2.compress, "xz": lzma.compress}
"""Compressed by what dis does not read."""
