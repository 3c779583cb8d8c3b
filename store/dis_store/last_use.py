"""When roots were last used.

The modification time of a root's record says it, so that a command that finds everything there pays for no write that
waits for the disk. It is a stamp and no plain time: a later use has a later stamp, even where the clock was set back in
between. `roots/last-use` bears the latest one.

A clock that jumped must not make everything old. So the store also notes on which days it was used, by the clock of
the day, as empty files `roots/days/2026-11-29`: see `RetirementPolicy`.
"""

import contextlib
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from dis_store.layout import Layout

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
# More than any policy counts.
_DAYS_KEPT = 32


@dataclass(frozen=True)
class LastUse:
    """The last use of a root.

    Attributes:
        stamp: Nanoseconds since 1970 as the clock had it, or a little later so that a later use has a later stamp.
        days_since: On how many later days the store was used, today included.
    """

    stamp: int
    days_since: int

    @property
    def time(self) -> datetime:
        """The stamp in UTC."""
        return datetime.fromtimestamp(self.stamp / 1e9, UTC)


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
    today = days / _today().isoformat()
    with contextlib.suppress(FileExistsError):
        try:
            _make(today)
        except FileNotFoundError:
            days.mkdir(exist_ok=True)
            _make(today)


def _make(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644))


def last_uses(layout: Layout, names: Iterable[str]) -> dict[str, LastUse]:
    """Return the last uses of named roots; those that are gone are left out."""
    today = _today()
    days = {day for day in _days(layout) if day < today} | {today}
    found: dict[str, LastUse] = {}
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            stamp = layout.root(name).stat().st_mtime_ns
            day_of_use = LastUse(stamp, 0).time.date()
            found[name] = LastUse(stamp, sum(day > day_of_use for day in days))
    return found


def forget_days(layout: Layout) -> None:
    """Remove the notes of days that count no more: old ones, and those of a clock that was ahead."""
    today = _today()
    known = sorted(_days(layout), reverse=True)
    ahead = [day for day in known if day > today]
    for day in (*ahead, *known[len(ahead) + _DAYS_KEPT :]):
        (layout.room("roots") / "days" / day.isoformat()).unlink(missing_ok=True)


def _days(layout: Layout) -> list[date]:
    try:
        names = os.listdir(layout.room("roots") / "days")  # noqa: PTH208 - names are all that is wanted
    except FileNotFoundError:
        return []
    days: list[date] = []
    for name in names:
        if _DAY.fullmatch(name):
            with contextlib.suppress(ValueError):
                days.append(date.fromisoformat(name))
    return days


def _today() -> date:
    return datetime.now(UTC).date()
