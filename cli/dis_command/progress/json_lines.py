"""Progress for programs: one JSON document a line (docs/reference/events.md)."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self, TextIO

from dis_command.progress.outlet import Outlet
from dis_command.stopping import MESSAGE, announced_by
from dis_derivations.realisation.events import Event

SCHEMA_VERSION = 1


def utc_now() -> str:
    """Return the time as in RFC 3339, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def event_line(event: Event, time: str) -> str:
    """Return an event as one line with its newline."""
    measures = [
        {"unit": each.unit, "done": each.done, "total": each.total} for each in event.measures
    ]
    return _line(time, event.kind, event.subject, event.text, event.seconds, measures)


def note_line(text: str, time: str) -> str:
    """Return what the command says about its own work as one line with its newline."""
    return _line(time, "note", "dis", text, None, [])


def stopping_line(text: str, time: str) -> str:
    """Return that somebody asked the command to stop, as one line with its newline."""
    return _line(time, "stopping", "dis", text, None, [])


def error_line(what: str, error: dict[str, Any], time: str) -> str:
    """Return why the command failed as one line with its newline: the last one."""
    return _line(time, "error", "dis", what, None, [], error=error)


def _line(
    time: str,
    kind: str,
    subject: str,
    text: str,
    seconds: float | None,
    measures: list[Any],
    **more: object,
) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "time": time,
        "event": kind,
        "subject": subject,
        "text": text,
        "seconds": None if seconds is None else round(seconds, 3),
        "measures": measures,
        **more,
    }
    return json.dumps(document) + "\n"


class JsonProgress:
    """Writes every event; a context manager.

    Args:
        stream: Where to.
        time: Returns the time as in RFC 3339.
    """

    def __init__(self, stream: TextIO, *, time: Callable[[], str] = utc_now) -> None:
        self._stream = stream
        self._outlet = Outlet(stream)
        self._time = time
        self._announcement = announced_by(self._announce_stop)

    def __enter__(self) -> Self:
        self._announcement.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._announcement.__exit__(None, None, None)

    def __call__(self, event: Event) -> None:
        """Write one event."""
        self._outlet.write(event_line(event, self._time()))

    def _announce_stop(self) -> bool:
        """Write it past the stream's buffer: a signal handler may have come in the middle of a write."""
        line = stopping_line(MESSAGE, self._time())
        try:
            os.write(self._stream.fileno(), line.encode())
        except (OSError, ValueError):
            return False
        return True
