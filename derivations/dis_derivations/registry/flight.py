"""How much is on its way to a registry at a time: what a kill may cost.

A registry need not keep what it has of a request that breaks off, and `docker-registry` does not. So all requests that
carry bytes share an allowance; each gives its share back when its last byte is sent, and the registry puts the blob
away while the next ones are on their way.
"""

import threading
from collections.abc import Callable


class Flight:
    """An allowance of bytes. Threads share it.

    Args:
        limit: The bytes that may be on their way. What is larger by itself has an allowance of its own: it would have
            to be sent again whatever else waits for it.
    """

    _SECONDS_BETWEEN_LOOKS = 0.1

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        self._left = limit

    def board(self, amount: int, check_interrupted: Callable[[], None]) -> Callable[[], None]:
        """Wait until so many bytes may be on their way; return what ends that, which may be called again.

        Args:
            amount: The bytes.
            check_interrupted: Called while waiting; raises when the user asked to stop.
        """
        if amount > self._limit:
            return lambda: None
        with self._changed:
            while amount > self._left:
                self._changed.wait(self._SECONDS_BETWEEN_LOOKS)
                check_interrupted()
            self._left -= amount
        taken = amount

        def land() -> None:
            nonlocal taken
            with self._changed:
                self._left += taken
                taken = 0
                self._changed.notify_all()

        return land
