"""The pipes to a worker: frames in and out, never waiting longer than somebody who interrupts wants to.

Both ends are non-blocking. Whatever waits looks every tenth of a second whether the build is to stop and whether the
worker has been silent for too long; so neither a worker that hangs nor one that does not read can hold dis.
"""

import os
import select
import time
from collections.abc import Callable, Mapping
from typing import Any

from dis_derivations.engines.child.frames import FrameError, encode_prefix, read_frame

_TICK_SECONDS = 0.1
_CHUNK_BYTES = 1 << 20


class WorkerGoneError(Exception):
    """The worker closed its end of the pipes."""


class WorkerSilentError(Exception):
    """The worker neither wrote nor read for as long as it may."""


class Pipes:
    """Frames to and from one worker.

    Args:
        incoming: Where the worker writes; closed by `close`.
        outgoing: Where it reads; closed by `close`.
        check: Called while there is nothing to do; raises to end the waiting.
        patience: After how many seconds without a byte a worker counts as hanging.
    """

    def __init__(
        self, incoming: int, outgoing: int, check: Callable[[], None], patience: float
    ) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._check = check
        self._patience = patience
        self._closed = False
        for descriptor in (incoming, outgoing):
            os.set_blocking(descriptor, False)

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """Return the next frame.

        Raises:
            FrameError: What came is none.
            WorkerGoneError, WorkerSilentError: Nothing comes.
        """
        return read_frame(self._read_exactly)

    def send(self, header: Mapping[str, Any], payload: bytes = b"") -> None:
        """Write one frame.

        Raises:
            FrameError: It is too large.
            WorkerGoneError, WorkerSilentError: Nobody reads.
        """
        for part in (encode_prefix(dict(header), len(payload)), payload):
            self._write(memoryview(part))

    def close(self) -> None:
        """Close both ends; the worker reads the end of its requests."""
        if not self._closed:
            self._closed = True
            os.close(self._incoming)
            os.close(self._outgoing)

    def _read_exactly(self, count: int) -> bytes:
        # Grows with what comes, not with what is announced.
        data = bytearray()
        while len(data) < count:
            self._wait(self._incoming, writing=False)
            try:
                piece = os.read(self._incoming, min(count - len(data), _CHUNK_BYTES))
            except BlockingIOError:
                continue
            if not piece:
                if data:
                    raise FrameError("a frame that ended in the middle")
                raise WorkerGoneError
            data += piece
        return bytes(data)

    def _write(self, data: memoryview) -> None:
        while data:
            self._wait(self._outgoing, writing=True)
            try:
                data = data[os.write(self._outgoing, data[:_CHUNK_BYTES]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError as error:
                raise WorkerGoneError from error

    def _wait(self, descriptor: int, *, writing: bool) -> None:
        """Return when the descriptor is ready, or its other end is closed."""
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT if writing else select.POLLIN)
        since = time.monotonic()
        while not poll.poll(_TICK_SECONDS * 1000):
            self._check()
            if time.monotonic() - since > self._patience:
                raise WorkerSilentError
        self._check()
