"""What is said at once when somebody asks the command to stop."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

MESSAGE = "stopping; press Ctrl-C again to stop at once"

# What shows something on stderr at the moment, and can say it better than a line in the middle of that. Each returns
# whether it does; called by a signal handler, so it may not wait for anything.
_announcers: list[Callable[[], bool]] = []
_asked: list[bool] = []


def ask() -> None:
    """Note that the command is to stop, for the threads of its work: the signal reaches none but the main one."""
    _asked.append(True)


def check() -> None:
    """End a thread of the work where the command is to stop.

    Raises:
        KeyboardInterrupt: It is; no error, so that nobody takes it for one of the thing that is worked on.
    """
    if _asked:
        raise KeyboardInterrupt


def announce() -> None:
    """Say on stderr that the command stops."""
    for announcer in reversed(_announcers):
        if announcer():
            return
    with suppress(OSError):
        # Not through sys.stderr: the signal may have come in the middle of a write to it.
        os.write(2, f"{MESSAGE}\n".encode())


@contextmanager
def announced_by(announcer: Callable[[], bool]) -> Iterator[None]:
    """Let somebody else say it for the time of a block."""
    _announcers.append(announcer)
    try:
        yield
    finally:
        _announcers.remove(announcer)
