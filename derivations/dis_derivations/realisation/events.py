"""What a realisation reports while it works, for whoever shows it."""

from dataclasses import dataclass
from typing import Literal, Protocol

EventKind = Literal["note", "start", "progress", "waiting", "cached", "done", "failed", "skipped"]


@dataclass(frozen=True)
class Event:
    """One thing that happened.

    Attributes:
        kind: What happened.
        subject: The derivation's name, or the thing a note is about.
        text: For people, one line without a full stop.
        seconds: How long the build took, for `done` and `failed`.
    """

    kind: EventKind
    subject: str
    text: str = ""
    seconds: float | None = None


class Reporter(Protocol):
    """Takes events; called from several threads, never at the same time."""

    def __call__(self, event: Event, /) -> None:
        """Show or record one event."""
        ...


def silent(event: Event) -> None:
    """Drop an event: the reporter of callers who want none."""
    del event
