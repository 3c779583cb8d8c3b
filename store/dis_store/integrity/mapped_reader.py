"""A program that hashes files by mapping them: `python -P mapped_reader.py THREADS`, started by `mapped_hashing`.

It is a process of its own because a mapped file that is cut short, or whose disk fails, ends the process that reads it.
It imports nothing of dis, so that it starts at once.

On stdin it takes paths, each with a NUL byte after it. For each it writes lines to stdout: `+BYTES` for every piece,
then `=BLAKE3`, or `!ERRNO` if the file could not be opened or mapped.
"""

import mmap
import os
import signal
import sys
from collections.abc import Iterator
from typing import BinaryIO

from blake3 import blake3

# Long enough for all threads, short enough to tell how far it has come.
PIECE_BYTES = 64 << 20
_PATH_BYTES = 1 << 16


def main() -> None:
    """Answer until stdin ends."""
    # Ctrl-C is for the process that started this one; it ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threads = int(sys.argv[1])
    for path in _paths(sys.stdin.fileno()):
        try:
            answer = f"={_digest(path, threads, sys.stdout.buffer)}"
        except OSError as error:
            answer = f"!{error.errno}"
        _say(sys.stdout.buffer, answer)


def _digest(path: bytes, threads: int, out: BinaryIO) -> str:
    hasher = blake3(max_threads=threads)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        size = os.fstat(descriptor).st_size
        for start in range(0, size, PIECE_BYTES):
            length = min(PIECE_BYTES, size - start)
            with mmap.mmap(descriptor, length, prot=mmap.PROT_READ, offset=start) as piece:
                piece.madvise(mmap.MADV_WILLNEED)
                with memoryview(piece) as view:
                    hasher.update(view)
            _say(out, f"+{length}")
    finally:
        os.close(descriptor)
    return hasher.hexdigest()


def _say(out: BinaryIO, line: str) -> None:
    out.write(f"{line}\n".encode())
    out.flush()


def _paths(descriptor: int) -> Iterator[bytes]:
    rest = b""
    while data := os.read(descriptor, _PATH_BYTES):
        *whole, rest = (rest + data).split(b"\0")
        yield from whole


if __name__ == "__main__":
    main()
