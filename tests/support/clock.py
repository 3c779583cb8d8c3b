"""A clock that stands still until a test moves it."""

from dataclasses import dataclass


@dataclass
class Clock:
    """Seconds, as `time.monotonic` gives them."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now
