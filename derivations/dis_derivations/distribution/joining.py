"""A file that comes in parts, put together in a download: each part goes to its place as soon as it is there.

What has its place is noted, and the part itself forgotten. So a file needs its own room and that of the few parts that
come at a time, and the next process goes on with what is left.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from threading import Lock

from dis_derivations.distribution.file_parts import read_from
from dis_derivations.registry.documents import Descriptor
from dis_store.digest import Digest
from dis_store.environment import reported
from dis_store.hashing import Content, hash_content
from dis_store.writing.downloads import Download

_FORMAT = "1"


def joined_key(place: str, blake3: Digest, parts: Sequence[Descriptor]) -> Digest:
    """Return what the download of a file in these parts is called."""
    listed = " ".join(f"{part.digest}/{part.size}" for part in parts)
    return Digest.of(f"{place} in parts {blake3} {listed}".encode())


class JoinedFile:
    """A file of which some parts are in their places. Threads may share it.

    Args:
        download: Where it is put together.
        parts: What it is made of, in order.
    """

    def __init__(self, download: Download, parts: Sequence[Descriptor]) -> None:
        self._download = download
        self._offsets = [0, *accumulate(part.size for part in parts)]
        self._lock = Lock()
        self._descriptor, may_write = download.open()
        try:
            self._present = self._noted()
            whole = self._present == (1 << len(parts)) - 1
            if not self._present or not (may_write or whole):
                os.close(self._descriptor)
                self._descriptor, self._present = download.start_over(), 0
            if not whole:
                download.reserve(self._descriptor, self._offsets[-1])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        with suppress(OSError):
            os.close(self._descriptor)

    def missing(self) -> list[int]:
        """Return the numbers of the parts that are not in their places."""
        return [
            number for number in range(len(self._offsets) - 1) if not self._present >> number & 1
        ]

    def place(self, number: int, pieces: Iterable[bytes]) -> None:
        """Put a part that is known to be right into its place, and note it once it lasts."""
        position = self._offsets[number]
        with reported(self._download.foundation.top):
            for piece in pieces:
                position = _write_all(self._descriptor, piece, position)
            os.fdatasync(self._descriptor)
        with self._lock:
            self._present |= 1 << number
            self._download.note(f"{_FORMAT} {self._present:x}".encode())

    def content(self, check_interrupted: Callable[[], None]) -> Content:
        """Return what the whole file holds: all of it is read."""
        return hash_content(self._descriptor, on_bytes=lambda _: check_interrupted())

    def _noted(self) -> int:
        """Return which parts are in their places, as a number with a bit for each; the whole file is compared later."""
        with suppress(ValueError):
            version, bits = self._download.journal().decode("ascii").split()
            present = int(bits, 16)
            length = os.fstat(self._descriptor).st_size
            if (
                version == _FORMAT
                and 0 < present < 1 << (len(self._offsets) - 1)
                and length == self._offsets[-1]
            ):
                return present
        return 0


def take_equal_parts(
    joined: JoinedFile,
    parts: Sequence[Descriptor],
    path: Path,
    check_interrupted: Callable[[], None],
) -> None:
    """Take from a file of the same size what is the same in it: an older state of a model has most of its tensors.

    Only what begins with the same part is looked at further: tensors that lie elsewhere are not in the same places.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        ends = [0, *accumulate(part.size for part in parts)]

        def has(number: int) -> bool:
            check_interrupted()
            hasher = hashlib.sha256()
            for piece in read_from(descriptor, ends[number], ends[number + 1]):
                hasher.update(piece)
            return f"sha256:{hasher.hexdigest()}" == parts[number].digest

        for number in joined.missing() if has(0) else ():
            if has(number):
                joined.place(number, read_from(descriptor, ends[number], ends[number + 1]))
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes, position: int) -> int:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, position)
        view, position = view[written:], position + written
    return position
