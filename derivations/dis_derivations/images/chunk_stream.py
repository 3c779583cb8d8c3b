"""A stream that is read from pieces which are made one after the other."""

from collections.abc import Iterator
from io import RawIOBase


class ChunkStream(RawIOBase):
    """Gives what an iterator yields, in pieces of the size that is asked for at most."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__()
        self._chunks = chunks
        self._left = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; none at the end."""
        while not self._left:
            found = next(self._chunks, None)
            if found is None:
                return b""
            self._left = found
        if size < 0:
            rest = b"".join((self._left, *self._chunks))
            self._left = b""
            return rest
        piece, self._left = self._left[:size], self._left[size:]
        return piece
