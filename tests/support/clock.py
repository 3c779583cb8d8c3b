"""Clocks that stand still until a test moves them."""

import time
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

import pytest

from dis_store import last_use


@dataclass
class Clock:
    """Seconds, as `time.monotonic` gives them."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Wall:
    """The clock by which a store notes when something was used."""

    time: datetime = field(default_factory=lambda: datetime.now(UTC))

    def hang(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the store look at this one."""
        monkeypatch.setattr(last_use, "today", self.today)
        monkeypatch.setattr(time, "time_ns", self.nanoseconds)

    def nanoseconds(self) -> int:
        """Return the time as `time.time_ns` does."""
        return int(self.time.timestamp() * 1e9)

    def today(self) -> date:
        """Return the day, in UTC."""
        return self.time.date()
