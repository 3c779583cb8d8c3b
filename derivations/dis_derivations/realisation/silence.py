"""The reporter of callers who want no reports; apart from the events, which then need not be loaded."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dis_derivations.realisation.events import Event


def silent(event: "Event") -> None:
    """Drop an event."""
    del event
