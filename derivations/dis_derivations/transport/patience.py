"""Waiting for what may never end, such as a server's answer, with an ear for who wants to stop."""

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")
_SECONDS_BETWEEN_LOOKS = 0.1


def bounded(
    action: Callable[[], _Result], seconds: float, check_interrupted: Callable[[], None]
) -> _Result:
    """Return what `action` returns, or raise what it raises; one that takes too long is left to itself.

    Args:
        action: Done in a thread of its own.
        seconds: The longest time.
        check_interrupted: Called now and then; raises when the user asked to stop.

    Raises:
        TimeoutError: It took too long.
    """
    outcome: queue.SimpleQueue[tuple[bool, object]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((True, action()))
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            outcome.put((False, error))

    threading.Thread(target=run, name="dis-request", daemon=True).start()
    waited = 0.0
    while waited < seconds:
        try:
            good, value = outcome.get(timeout=_SECONDS_BETWEEN_LOOKS)
        except queue.Empty:
            waited += _SECONDS_BETWEEN_LOOKS
            check_interrupted()
            continue
        if not good:
            raise value  # type: ignore[misc]
        return value  # type: ignore[return-value]
    raise TimeoutError
