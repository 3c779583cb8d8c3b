"""A stream for progress, whose reader may go away at any moment without the work noticing."""

import os
from typing import TextIO


class Outlet:
    """Writes to a stream, and never fails: what nobody can read any more is dropped.

    Args:
        stream: Where to, usually stderr.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._gone = False

    def write(self, text: str) -> None:
        """Write text as a whole and at once."""
        if self._gone or not text:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except BlockingIOError:  # a terminal that somebody made non-blocking, and that is full
            return
        except (OSError, ValueError):  # EIO, EPIPE, ENOSPC; or closed
            self._gone = True
            self._lead_to_nowhere()

    def _lead_to_nowhere(self) -> None:
        """Let the rest in the stream's buffer be written to nothing: at its end the interpreter flushes it again."""
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)
        except (OSError, ValueError):  # it is no file
            return
