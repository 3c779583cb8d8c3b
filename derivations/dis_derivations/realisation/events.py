"""What a realisation reports while it works, for whoever shows it."""

from dataclasses import dataclass
from typing import Literal, Protocol

EventKind = Literal[
    "plan", "note", "start", "progress", "waiting", "cached", "done", "failed", "skipped", "begin", "end"
]  # fmt: skip


@dataclass(frozen=True)
class Measure:
    """How much of something is done.

    Attributes:
        unit: What is counted, in the plural: `bytes`, `requests`, `tokens`, `objects`, `builds`.
        done: How many.
        total: How many there will be; None where nobody knows.
    """

    unit: str
    done: int
    total: int | None = None

    @property
    def complete(self) -> bool:
        """Whether it is known that all of it is done."""
        return self.total is not None and self.done >= self.total


@dataclass(frozen=True)
class Event:
    """One thing that happened.

    A `plan` says how many builds are going to be made, in addition to those of earlier plans. A
    `progress` without measures is a line of the build's log; one with measures says how far the
    piece of work that its text names has come, and replaces what was said before. A build is told of
    from `start` to `done`, other work, such as reading files for a lock, from `begin` to `end`; both
    may end with `failed`.

    Attributes:
        kind: What happened.
        subject: The derivation's name, or the thing a note is about.
        text: For people, one line without a full stop.
        seconds: How long it took, for `done`, `end` and `failed`.
        measures: For `plan` and `progress`; the first is the one to judge the end by.
    """

    kind: EventKind
    subject: str
    text: str = ""
    seconds: float | None = None
    measures: tuple[Measure, ...] = ()


class Reporter(Protocol):
    """Takes events; called from several threads, never at the same time."""

    def __call__(self, event: Event, /) -> None:
        """Show or record one event."""
        ...
