"""Several pieces of work at a time, which all end when one fails or the user asks to stop."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from dis_store.errors import InterruptedBuildError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_SECONDS_BETWEEN_LOOKS = 0.2


class Stop:
    """Tells those who work that they shall end."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Ask all to end."""
        self._event.set()

    def check(self) -> None:
        """Raise if it is time to end.

        Raises:
            InterruptedBuildError: It is.
        """
        if self._event.is_set():
            raise InterruptedBuildError(
                "interrupted", hint="run the same command again: it goes on from what has arrived"
            )


def work_on(
    items: Iterable[_Item], work: Callable[[_Item], _Result], stop: Stop, *, jobs: int
) -> list[_Result]:
    """Return what comes of each item, in order.

    Raises:
        DisError: The first failure; the rest is stopped then.
        KeyboardInterrupt: The user interrupted; all threads have ended.
    """
    with ThreadPoolExecutor(jobs, "dis-registry") as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            pending = set(futures)
            while pending:
                done, pending = wait(pending, _SECONDS_BETWEEN_LOOKS, FIRST_EXCEPTION)
                for each in done:
                    each.result()
        except BaseException:
            stop.set()
            for each in futures:
                each.cancel()
            raise
    return [each.result() for each in futures]
