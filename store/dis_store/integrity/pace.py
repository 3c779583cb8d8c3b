"""Doing work no faster than asked, so that other work is not in its way."""

import threading
import time
from collections.abc import Callable


class Pace:
    """Holds back whoever calls it until the rate is kept; for several threads.

    Args:
        rate: Bytes per second; more than 0. An attribute as well.
        clock: Seconds, never going back.
        sleep: Waits for seconds.
    """

    def __init__(
        self,
        rate: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.rate = rate
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = clock()

    def __call__(self, amount: int) -> None:
        """Take note of `amount` bytes, and wait for as long as they should have taken."""
        with self._lock:
            now = self._clock()
            # What was not used is not saved up: a rest is no reason for a rush.
            self._free_at = max(self._free_at, now) + amount / self.rate
            pause = self._free_at - now
        if pause > 0:
            self._sleep(pause)
