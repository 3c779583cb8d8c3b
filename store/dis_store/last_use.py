"""Noting that a root is used.

The modification time of a root's record says it, so that a command that finds everything there pays for no write that
waits for the disk. It is a stamp and no plain time: a later use has a later stamp, even where the clock was set back in
between. `roots/last-use` bears the latest one.

A clock that jumped must not make everything old. So the store also notes on which days it was used, by the clock of
the day, as empty files `roots/days/2026-11-29`: see `RetirementPolicy`.
"""

import contextlib
import os
import time
from datetime import UTC, date, datetime
from pathlib import Path

from dis_store.layout import Layout


def note_use(layout: Layout, name: str) -> None:
    """Note that a root is used now. What cannot be noted, as in a store that may only be read, is let be."""
    with contextlib.suppress(OSError):
        stamp = _next_stamp(layout.room("roots") / "last-use")
        os.utime(layout.root(name), ns=(stamp, stamp))
        note_day(layout)


def _next_stamp(latest: Path) -> int:
    now = time.time_ns()
    try:
        stamp = max(now, latest.stat().st_mtime_ns + 1)
    except FileNotFoundError:
        latest.touch()
        stamp = now
    os.utime(latest, ns=(stamp, stamp))
    return stamp


def note_day(layout: Layout) -> None:
    """Note that the store is used today."""
    days = layout.room("roots") / "days"
    note = days / today().isoformat()
    with contextlib.suppress(FileExistsError):
        try:
            _make(note)
        except FileNotFoundError:
            days.mkdir(exist_ok=True)
            _make(note)


def _make(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644))


def today() -> date:
    """Return the day by the clock, in UTC."""
    return datetime.now(UTC).date()
