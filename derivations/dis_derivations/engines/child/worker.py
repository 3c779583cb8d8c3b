"""A worker as dis sees it, whatever it runs in: pipes to speak through, what it wrote beside them, and its end."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dis_derivations.engines.child.pipes import Pipes


@dataclass(frozen=True)
class WorkerEnd:
    """How a worker ended.

    Attributes:
        words: Said of it.
        hint: What to do about it, where the end itself tells.
    """

    words: str
    hint: str | None = None


class Worker(Protocol):
    """A worker that runs."""

    @property
    def pipes(self) -> Pipes:
        """The pipes to it."""
        ...

    def ended(self) -> WorkerEnd:
        """Wait until it has ended, which it is about to, and return how; end it if it does not."""
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


def killed_by(number: int) -> WorkerEnd:
    """Return that a signal ended a worker."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    because, hint = _KERNEL.get(name, ("", None))
    return WorkerEnd(f"it was ended by {name}{because}", hint)


_KERNEL: Mapping[str, tuple[str, str | None]] = {
    "SIGKILL": (", as the kernel does when memory runs out", None),
    # Engines map weights, and what they share with each other. Of such a page nothing can be told but this.
    "SIGBUS": (
        ", as the kernel does when a mapped file cannot be read or became shorter, or when /dev/shm is full",
        "see whether the model is damaged: dis store verify --all; then look after the disk and after /dev/shm",
    ),
}
"""What the kernel ends processes with, why, and what to do about it."""
