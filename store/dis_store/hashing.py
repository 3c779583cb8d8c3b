"""Hashing content once for all: BLAKE3, which is ours, the SHA-256 that hubs and registries speak, and tensors."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from dis_store.digest import Digest, Sha256
from dis_store.environment import reading
from dis_store.errors import InvalidInputError
from dis_store.lane import Lane
from dis_store.tensors.tensor_scan import Tensor, TensorScan
from dis_store.work_progress import uncounted

# Long enough for the hashes, and so short that the memory of one piece is used for the next ones: a piece of 1 MiB is
# mapped anew each time when another thread lets go of it, and those page faults cost a fifth of SHA-256.
CHUNK_BYTES = 1 << 19
# A second thread pays from about here on.
_THREAD_FROM_BYTES = 4 << 20


def computed(sha256: Sha256 | None) -> Sha256:
    """Return a SHA-256 that was computed.

    Raises:
        InvalidInputError: It was not.
    """
    if sha256 is None:
        raise InvalidInputError("the SHA-256 of a file is not known", cause="it was not asked for")
    return sha256


@dataclass(frozen=True)
class Content:
    """What bytes are.

    Attributes:
        size: How many.
        blake3: Their digest.
        known_sha256: Their SHA-256; None if it was not computed.
        tensors: The tensors in them, if they are a safetensors file.
    """

    size: int
    blake3: Digest
    known_sha256: Sha256 | None
    tensors: tuple[Tensor, ...] = ()

    @property
    def sha256(self) -> Sha256:
        """Their SHA-256, which was computed.

        Raises:
            InvalidInputError: It was not.
        """
        return computed(self.known_sha256)


class ContentHasher:
    """All digests of a stream in one pass. Call `finish`, or `abandon` when the stream breaks.

    Args:
        with_sha256: Whether the SHA-256 is computed. It takes as long as all the rest, and nobody may ever ask for it:
            that of a file in the store can be computed later.
        threaded: Whether a long stream has a second thread. Where other streams keep the processors busy, it only
            costs.
    """

    def __init__(self, *, with_sha256: bool = True, threaded: bool = True) -> None:
        self._with_sha256 = with_sha256
        self._threaded = threaded
        self._blake3 = blake3()
        self._sha256 = hashlib.sha256()
        self._scan = TensorScan()
        # SHA-256 takes longer than both BLAKE3s, that of the file and those of its tensors; without it they share out.
        self._beside = Lane(self._sha256.update if with_sha256 else self._take_tensors)
        self._size = 0

    def update(self, chunk: bytes) -> None:
        """Take the next bytes, which must not change afterwards."""
        self._size += len(chunk)
        if self._with_sha256 or not self._scan.over:
            threaded = self._threaded and self._size >= _THREAD_FROM_BYTES
            self._beside.take(chunk, threaded=threaded)
        self._blake3.update(chunk)
        if self._with_sha256:
            self._take_tensors(chunk)

    def _take_tensors(self, chunk: bytes) -> None:
        if not self._scan.over:
            self._scan.update(chunk)

    def finish(self) -> Content:
        """Return what the stream was."""
        self._beside.finish()
        sha256 = Sha256(f"sha256:{self._sha256.hexdigest()}") if self._with_sha256 else None
        return Content(self._size, Digest(self._blake3.hexdigest()), sha256, self._scan.finish())

    def abandon(self) -> None:
        """Stop without a result."""
        self._beside.abandon()


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
    with_sha256: bool = True,
) -> Content:
    """Read an open file from its start; return its size and digests. `on_bytes` is told of each piece."""
    hasher = ContentHasher(with_sha256=with_sha256)
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
