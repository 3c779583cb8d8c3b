"""What a worker writes to its standard output and error: as much of it as a log should hold."""

_FIRST_BYTES = 4 << 20
_LAST_BYTES = 256 << 10


class WorkerOutput:
    """The beginning and the end of what a worker writes; one thread adds, another reads when that is done."""

    def __init__(self) -> None:
        self._first = bytearray()
        self._last = bytearray()
        self._dropped = 0

    def add(self, piece: bytes) -> None:
        """Keep a piece, or the end of it."""
        room = max(_FIRST_BYTES - len(self._first), 0)
        self._first += piece[:room]
        self._last += piece[room:]
        if (excess := len(self._last) - _LAST_BYTES) > 0:
            del self._last[:excess]
            self._dropped += excess

    def kept(self) -> bytes:
        """Return all of it, or the beginning and the end with a line about what is missing."""
        if not self._dropped:
            return bytes(self._first + self._last)
        left_out = f"\n[{self._dropped} bytes left out]\n".encode()
        return bytes(self._first + left_out + self._last)

    def last_line(self) -> str | None:
        """Return the last line, None where there is none."""
        text = bytes(self._last or self._first).decode("utf-8", "replace")
        return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), None)
