"""Hashing content once for both worlds: BLAKE3, which is ours, and the SHA-256 that hubs and registries speak."""

import hashlib
import math
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from blake3 import blake3

from dis_store.digest import Digest, Sha256

CHUNK_BYTES = 1 << 20
# SHA-256 is the slower of the two; a thread for it pays from about here on.
_THREAD_FROM_BYTES = 4 << 20
_QUEUED_CHUNKS = 8


def uncounted(_amount: int) -> None:
    """Let bytes go by: the `on_bytes` of those who do not count."""


@dataclass(frozen=True)
class Content:
    """What bytes are: how many, and both digests of them."""

    size: int
    blake3: Digest
    sha256: Sha256


class ContentHasher:
    """Both digests of a stream in one pass. Call `finish`, or `abandon` when the stream breaks.

    Args:
        threaded: Whether a long stream gets a thread for SHA-256. Where other streams keep the processors busy, the
            thread only costs.
    """

    def __init__(self, *, threaded: bool = True) -> None:
        self._blake3 = blake3()
        self._sha256 = _ThreadedSha256()
        self._thread_from = _THREAD_FROM_BYTES if threaded else math.inf
        self._size = 0

    def update(self, chunk: bytes) -> None:
        """Take the next bytes, which must not change afterwards."""
        self._size += len(chunk)
        self._sha256.update(chunk, threaded=self._size >= self._thread_from)
        self._blake3.update(chunk)

    def finish(self) -> Content:
        """Return what the stream was."""
        return Content(
            self._size, Digest(self._blake3.hexdigest()), Sha256(f"sha256:{self._sha256.finish()}")
        )

    def abandon(self) -> None:
        """Stop without a result."""
        self._sha256.finish()


class _ThreadedSha256:
    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._queue: queue.Queue[bytes | None] | None = None
        self._thread: threading.Thread | None = None

    def update(self, chunk: bytes, *, threaded: bool) -> None:
        if self._queue is None and threaded:
            self._queue = queue.Queue(_QUEUED_CHUNKS)
            self._thread = threading.Thread(target=self._work, args=(self._queue,), daemon=True)
            self._thread.start()
        if self._queue is None:
            self._hash.update(chunk)
        else:
            self._queue.put(chunk)

    def _work(self, chunks: "queue.Queue[bytes | None]") -> None:
        while (chunk := chunks.get()) is not None:
            self._hash.update(chunk)

    def finish(self) -> str:
        if self._queue is not None and self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._queue = None
        return self._hash.hexdigest()


def hash_descriptor(
    descriptor: int, *, threads: int = 1, on_bytes: Callable[[int], None] = uncounted
) -> tuple[int, Digest]:
    """Read an open file from its start; return its size and BLAKE3. `on_bytes` is told of each piece.

    Reads, rather than maps: a mapped file that is cut short while it is read kills the process.
    """
    hasher = blake3(max_threads=threads)
    size = 0
    # Several threads need long pieces to be worth their start.
    length = CHUNK_BYTES if threads == 1 else 8 * CHUNK_BYTES
    while chunk := os.pread(descriptor, length, size):
        hasher.update(chunk)
        size += len(chunk)
        on_bytes(len(chunk))
    return size, Digest(hasher.hexdigest())


def hash_content(
    descriptor: int, *, on_bytes: Callable[[int], None] = uncounted, threaded: bool = True
) -> Content:
    """Read an open file from its start; return its size and both digests. `on_bytes` is told of each piece."""
    hasher = ContentHasher(threaded=threaded)
    position = 0
    try:
        while chunk := os.pread(descriptor, CHUNK_BYTES, position):
            hasher.update(chunk)
            position += len(chunk)
            on_bytes(len(chunk))
    except BaseException:
        hasher.abandon()
        raise
    return hasher.finish()
