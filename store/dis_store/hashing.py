"""Hashing content once for all: BLAKE3, which is ours, the SHA-256 that hubs and registries speak, and tensors."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from dis_store.digest import Digest, Sha256
from dis_store.environment import reading
from dis_store.lane import Lane
from dis_store.tensors.tensor_scan import Tensor, TensorScan

# Long enough for the hashes, and so short that the memory of one piece is used for the next ones: a piece of 1 MiB is
# mapped anew each time when another thread lets go of it, and those page faults cost a fifth of SHA-256.
CHUNK_BYTES = 1 << 18
# SHA-256 is the slowest of them; a thread for it pays from about here on.
_THREAD_FROM_BYTES = 4 << 20


def uncounted(_amount: int) -> None:
    """Let bytes go by: the `on_bytes` of those who do not count."""


def always() -> bool:
    """Say yes: the `spare` of those who read one stream at a time."""
    return True


@dataclass(frozen=True)
class Content:
    """What bytes are: how many, both digests of them, and the tensors in them if they are a safetensors file."""

    size: int
    blake3: Digest
    sha256: Sha256
    tensors: tuple[Tensor, ...] = ()


class ContentHasher:
    """All digests of a stream in one pass. Call `finish`, or `abandon` when the stream breaks.

    Args:
        spare: Says whether a processor is idle, so that a long stream may have a thread for SHA-256. It is asked at
            each piece until it says yes. Where other streams keep the processors busy, a thread only costs.
    """

    def __init__(self, *, spare: Callable[[], bool] = always) -> None:
        self._blake3 = blake3()
        self._sha256 = hashlib.sha256()
        self._scan = TensorScan()
        self._for_sha256 = Lane(self._sha256.update)
        self._spare = spare
        self._size = 0

    def update(self, chunk: bytes) -> None:
        """Take the next bytes, which must not change afterwards."""
        self._size += len(chunk)
        self._for_sha256.take(chunk, threaded=self._size >= _THREAD_FROM_BYTES and self._spare())
        # Both BLAKE3s together take less time than SHA-256 where that has a thread.
        self._blake3.update(chunk)
        if not self._scan.over:
            self._scan.update(chunk)

    def finish(self) -> Content:
        """Return what the stream was."""
        self._for_sha256.finish()
        return Content(
            self._size,
            Digest(self._blake3.hexdigest()),
            Sha256(f"sha256:{self._sha256.hexdigest()}"),
            self._scan.finish(),
        )

    def abandon(self) -> None:
        """Stop without a result."""
        self._for_sha256.abandon()


def hash_descriptor(
    descriptor: int, *, threads: int = 1, on_bytes: Callable[[int], None] = uncounted
) -> tuple[int, Digest]:
    """Read an open file from its start; return its size and BLAKE3. `on_bytes` is told of each piece.

    Reads, rather than maps: a mapped file that is cut short while it is read kills the process.
    """
    hasher = blake3(max_threads=threads)
    size = 0
    # Several threads need long pieces to be worth their start.
    length = CHUNK_BYTES if threads == 1 else 32 * CHUNK_BYTES
    while chunk := os.pread(descriptor, length, size):
        hasher.update(chunk)
        size += len(chunk)
        on_bytes(len(chunk))
    return size, Digest(hasher.hexdigest())


def digest_of(path: Path) -> Digest:
    """Return the BLAKE3 of a file.

    Raises:
        IntegrityError: The disk does not give what is in it.
        OSError: It cannot be opened.
    """
    with reading(path), path.open("rb") as stream:
        return hash_descriptor(stream.fileno())[1]


def hash_content(
    descriptor: int,
    *,
    on_bytes: Callable[[int], None] = uncounted,
    spare: Callable[[], bool] = always,
) -> Content:
    """Read an open file from its start; return its size and all digests. `on_bytes` is told of each piece."""
    hasher = ContentHasher(spare=spare)
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
