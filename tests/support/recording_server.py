"""Serves the file behind a loop device from user space, and writes down every write and flush that reaches it.

Usage: recording_server.py IMAGE LOG MOUNTPOINT

At MOUNTPOINT lie `disk`, whose bytes are those of IMAGE, and `marks`: what is written there becomes a mark in the log,
in its place among the writes. The log is what `write_log.py` reads.
"""

import errno
import os
import stat
import sys

from fuse import FUSE, FuseOSError, Operations

from write_log import FLUSH, MARK, WRITE, encode


# fusepy has no types.
class Recorder(Operations):  # type: ignore[misc]
    """One disk of fixed size, and the place for marks."""

    def __init__(self, image: str, log: str) -> None:
        self._image = os.open(image, os.O_RDWR)
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._size = os.fstat(self._image).st_size

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o700, "st_nlink": 2}
        sizes = {"/disk": self._size, "/marks": 0}
        if path not in sizes:
            raise FuseOSError(errno.ENOENT)
        return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": sizes[path]}

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", "disk", "marks"]

    def open(self, path: str, flags: int) -> int:
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(self._image, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        if path == "/marks":
            os.write(self._log, encode(MARK, data=data))
        else:
            os.pwrite(self._image, data, offset)
            os.write(self._log, encode(WRITE, offset, data))
        return len(data)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        """The place for marks is opened as any file is."""

    def fsync(self, path: str, datasync: int, fh: int) -> None:
        if path == "/disk":
            os.write(self._log, encode(FLUSH))


if __name__ == "__main__":
    _image, _log, _mountpoint = sys.argv[1:]
    # One thread: what is in the log before a flush had ended before it.
    FUSE(
        Recorder(_image, _log),
        _mountpoint,
        foreground=True,
        nothreads=True,
        big_writes=True,
        direct_io=True,
    )
