"""The bytes of one file as several threads fetch them: what is there, what is being fetched, and what is left."""

import os
import threading
from dataclasses import dataclass

from dis_derivations.transport.answer import Version
from dis_derivations.transport.extents import Extent, Extents
from dis_derivations.transport.positions import Positions
from dis_store.platform_linux import start_writeback


class StaleError(Exception):
    """What a thread fetches is not wanted any more."""


class ChangedError(Exception):
    """The server has another version of the file than that of the bytes so far."""


@dataclass(eq=False)
class Piece:
    """A range that one thread fetches.

    Attributes:
        start: Its first byte.
        end: The one after its last; None while the end of the file is not known.
        position: The next byte to come.
        slot: The number of the thread.
        wanted: Whether its bytes still count.
    """

    start: int
    end: int | None
    position: int
    slot: int
    wanted: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether all of it has come."""
        return self.end is not None and self.position >= self.end


class Pieces:
    """Hands out the ranges of a file, and writes what comes to their places. Threads share it.

    Args:
        descriptor: The file, which only this object writes to, and which stays the caller's.
        piece_bytes: The size of a range.
        version: Of the bytes so far; None where there are none.
        extents: The bytes so far.
        positions: Where it is noted how far each thread has come.
    """

    def __init__(
        self,
        descriptor: int,
        piece_bytes: int,
        version: Version | None,
        extents: Extents,
        positions: Positions,
    ) -> None:
        self._descriptor = descriptor
        self._positions = positions
        self._piece_bytes = piece_bytes
        self._lock = threading.Lock()
        self._extents = extents
        self._current: list[Piece] = []
        self._closed = False
        self._has_room = False
        self.version = version
        self.received = 0

    @property
    def size(self) -> int | None:
        """The length of the file; None while it is not known."""
        return None if self.version is None else self.version.size

    @property
    def is_complete(self) -> bool:
        """Whether all bytes are there."""
        with self._lock:
            return self.size is not None and self._extents.count == self.size

    def have_room(self) -> None:
        """Hand out more than the first range, because the disk has room for the file."""
        with self._lock:
            self._has_room = True

    @property
    def is_claimable(self) -> bool:
        """Whether there is a range that nobody fetches yet."""
        with self._lock:
            return not self._closed and self._next(0) is not None

    def claim(self, slot: int) -> Piece | None:
        """Return a range that nobody fetches yet for a thread; None where there is none.

        What the thread fetched before must be in the journal: its position is forgotten when the next bytes come.
        """
        with self._lock:
            if self._closed:
                return None
            piece = self._next(slot)
            if piece is not None:
                self._current.append(piece)
            return piece

    def _next(self, slot: int) -> Piece | None:
        if self.size is None:
            # The first answer tells how long the file is; until then one thread asks.
            return None if self._current else Piece(0, self._piece_bytes, 0, slot)
        if not self._has_room:
            return None
        taken = Extents(self._extents)
        for piece in self._current:
            taken.add(piece.start, self.size if piece.end is None else piece.end)
        for start, end in taken.missing(self.size):
            return Piece(start, min(end, start + self._piece_bytes), start, slot)
        return None

    def adopt(self, piece: Piece, version: Version, end: int | None) -> None:
        """Let an answer be the one that the file is taken from, or see that it fits what came before.

        Args:
            piece: What was asked for.
            version: What the answer is of.
            end: Where its bytes end; None where that is not known.

        Raises:
            ChangedError: It is another version.
            StaleError: The range is not wanted any more.
        """
        with self._lock:
            self._check(piece)
            if self.version is None:
                self.version = version
            elif not version.is_same(self.version):
                raise ChangedError
            piece.end = end

    def write(self, piece: Piece, data: bytes) -> None:
        """Write what has come of a range.

        Raises:
            StaleError: The range is not wanted any more.
            OSError: The disk refuses.
        """
        with self._lock:
            self._check(piece)
            view = memoryview(data)
            while view:
                count = os.pwrite(self._descriptor, view, piece.position)
                piece.position += count
                self.received += count
                view = view[count:]
            if self.version is not None:
                self._positions.note(piece.slot, self.version, piece.start, piece.position)

    def finish(self, piece: Piece, *, at_end_of_file: bool = False) -> None:
        """Note that all of a range has come.

        Args:
            piece: The range.
            at_end_of_file: Whether the end of the file was not known before.
        """
        with self._lock:
            self._check(piece)
            if at_end_of_file and self.version is not None:
                self.version = Version(piece.position, self.version.etag, self.version.modified)
            self._give_back(piece)
            start_writeback(self._descriptor, piece.start, piece.position - piece.start)

    def give_up(self, piece: Piece) -> None:
        """Let another thread have what is left of a range; what has come of it stays."""
        with self._lock:
            if piece.wanted and not self._closed:
                self._give_back(piece)

    def _give_back(self, piece: Piece) -> None:
        piece.wanted = False
        self._current.remove(piece)
        self._extents.add(piece.start, piece.position)

    def _check(self, piece: Piece) -> None:
        if self._closed or not piece.wanted:
            raise StaleError

    def reach(self, position: int) -> int:
        """Return how far bytes go on without a gap from `position`."""
        with self._lock:
            before = -1
            while position != before:
                before = position
                position = self._extents.reach(position)
                for piece in self._current:
                    if piece.start <= position < piece.position:
                        position = piece.position
            return position

    def arrived(self) -> tuple[Extent, ...]:
        """Return all bytes that are there, also those of ranges that are being fetched."""
        with self._lock:
            found = Extents(self._extents)
            for piece in self._current:
                found.add(piece.start, piece.position)
            return tuple(found)

    def close(self) -> None:
        """Let no byte be written any more."""
        with self._lock:
            for piece in self._current:
                self._extents.add(piece.start, piece.position)
            self._current.clear()
            self._closed = True
