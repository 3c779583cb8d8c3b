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
        self._sha256.abandon()


class _ThreadedSha256:
    """SHA-256 that goes on in a thread of its own from some chunk on.

    Ctrl-C may strike anywhere in here. So nothing but `SimpleQueue` is used, whose calls happen or do not: a
    `queue.Queue` that is interrupted may never again wake who waits for it.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._chunks: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        # One token for each chunk that may wait, so that a slow hash does not fill the memory.
        self._room: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def update(self, chunk: bytes, *, threaded: bool) -> None:
        if self._thread is None and threaded:
            for _ in range(_QUEUED_CHUNKS):
                self._room.put(None)
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        if self._thread is None:
            self._hash.update(chunk)
        else:
            self._room.get()
            self._chunks.put(chunk)

    def _work(self) -> None:
        while (chunk := self._chunks.get()) is not None:
            self._hash.update(chunk)
            self._room.put(None)

    def finish(self) -> str:
        if self._thread is not None:
            self._chunks.put(None)
            self._thread.join()
            self._thread = None
        return self._hash.hexdigest()

    def abandon(self) -> None:
        """Let the thread end when it has done what waits for it; nobody waits for that."""
        self._chunks.put(None)


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
