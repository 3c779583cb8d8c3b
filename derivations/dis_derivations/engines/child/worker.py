"""A worker as dis sees it, whatever it runs in: pipes to speak through, what it wrote beside them, and its end."""

import signal
from typing import Protocol

from dis_derivations.engines.child.pipes import Pipes


class Worker(Protocol):
    """A worker that runs."""

    @property
    def pipes(self) -> Pipes:
        """The pipes to it."""
        ...

    def ended(self) -> str:
        """Wait until it has ended, which it is about to, and return how, in words; end it if it does not."""
        ...

    def close(self) -> None:
        """Let it end by itself, for it was told to, and end it if it does not."""
        ...

    def kill(self) -> None:
        """End it and everything that it started, now; once more does nothing."""
        ...

    def packets_without_way(self) -> int | None:
        """Return how often it tried to reach what there is no way to; None where it is not kept from any network here.

        Raises:
            BuildError: It cannot be counted.
        """
        ...

    def output(self) -> bytes:
        """Return what it wrote to its standard output and error, as much of it as a log should hold."""
        ...

    def last_line(self) -> str | None:
        """Return the last line that it wrote, None where there is none."""
        ...


def killed_by(number: int) -> str:
    """Return in words that a signal ended a worker."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    killed = ", as the kernel does when memory runs out" if name == "SIGKILL" else ""
    return f"it was ended by {name}{killed}"
