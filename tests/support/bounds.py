"""Bounds on what a piece of code may take, in this process."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

MIB = 1 << 20


class TookTooLongError(BaseException):
    """More was computed than may be; nothing that catches exceptions may swallow it."""


@contextmanager
def little_memory(mebibytes: int = 256) -> Iterator[None]:
    """Let this process allocate so much more, and no more, for the time of a block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[5])
    resource.setrlimit(
        resource.RLIMIT_DATA, (pages * resource.getpagesize() + mebibytes * MIB, hard)
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@contextmanager
def little_computing(seconds: float = 5.0) -> Iterator[None]:
    """Let this process compute so long in a block: its own time, so that a busy machine changes nothing."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TookTooLongError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
