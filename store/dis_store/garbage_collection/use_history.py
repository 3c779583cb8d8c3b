"""When roots were last used, as `last_use` noted it."""

import contextlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime

from dis_store import last_use
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


def last_uses(layout: Layout, names: Iterable[str]) -> dict[str, LastUse]:
    """Return the last uses of named roots; those that are gone are left out."""
    now = last_use.today()
    days = {day for day in _days(layout) if day < now} | {now}
    found: dict[str, LastUse] = {}
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            stamp = layout.root(name).stat().st_mtime_ns
            day_of_use = LastUse(stamp, 0).time.date()
            found[name] = LastUse(stamp, sum(day > day_of_use for day in days))
    return found


def forget_days(layout: Layout) -> None:
    """Remove the notes of days that count no more: old ones, and those of a clock that was ahead."""
    now = last_use.today()
    known = sorted(_days(layout), reverse=True)
    ahead = [day for day in known if day > now]
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
