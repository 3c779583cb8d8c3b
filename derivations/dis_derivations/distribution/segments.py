"""Bytes that are made of files and of a few bytes between them: read from any position, and never written to a disk."""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from dis_derivations.registry.uploads import Blob
from dis_store import Store
from dis_store.digest import Digest, Sha256
from dis_store.environment import reading
from dis_store.errors import IntegrityError

_PIECE = 1 << 18


@dataclass(frozen=True)
class Segment:
    """A stretch of such bytes.

    Attributes:
        size: How many there are.
        data: The bytes themselves, where they are no file.
        path: The file that they are.
    """

    size: int
    data: bytes = b""
    path: Path | None = None

    @classmethod
    def of_bytes(cls, data: bytes) -> "Segment":
        """Return bytes in memory."""
        return cls(len(data), data)

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes from `start` to before `end`.

        Raises:
            IntegrityError: The file is shorter than it must be.
        """
        if self.path is None:
            yield self.data[start:end]
            return
        with self.path.open("rb", buffering=0) as file:
            file.seek(start)
            left = end - start
            while left:
                with reading(self.path):
                    piece = file.read(min(left, _PIECE))
                if not piece:
                    raise IntegrityError(
                        f"the file {self.path} is damaged", cause="it is too short"
                    )
                left -= len(piece)
                yield piece


class Segments:
    """Stretches of bytes, one after the other."""

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._segments = [each for each in segments if each.size]
        self._ends = list(accumulate(segment.size for segment in self._segments))

    @property
    def size(self) -> int:
        """The bytes of all of them."""
        return self._ends[-1] if self._ends else 0

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes from `start` to before `end`, in pieces of at most 256 KiB where they are those of files."""
        number = bisect_right(self._ends, start)
        while start < end:
            segment, stop = self._segments[number], self._ends[number]
            begin = stop - segment.size
            yield from segment.read(start - begin, min(end, stop) - begin)
            start, number = max(start, stop), number + 1

    def sha256(
        self,
        store: Store,
        key: Digest,
        objects: Sequence[Digest],
        check_interrupted: Callable[[], None],
    ) -> Sha256:
        """Return the digest of all bytes. They are hashed once; the store remembers what came out.

        Args:
            store: The store.
            key: What determines the bytes.
            objects: Those that have the files.
            check_interrupted: Raises when the user asked to stop.
        """
        known = store.recall_plan(key)
        if known is None:
            hasher = hashlib.sha256()
            for piece in self.read(0, self.size):
                hasher.update(piece)
                check_interrupted()
            known = json.dumps(f"sha256:{hasher.hexdigest()}")
            store.remember_plan(key, known, objects)
        return Sha256(json.loads(known))

    def blob(self, digest: Sha256) -> Blob:
        """Return them as something to send, under their digest."""
        return Blob(digest, self.size, self.read)
