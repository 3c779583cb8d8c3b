"""Waiting for a lock that another process holds: who holds it is told, and there may be an end to it.

The kernel queues who waits for an `flock`; who keeps asking instead may never get a turn. So the wait happens inside
the system, on a thread of its own where somebody wants to hear of it or has no time.
"""

import fcntl
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dis_store.errors import LockTimeoutError

if TYPE_CHECKING:
    from dis_store.lock_holder import LockHolder

# Locks are held for moments, as a rule; only who waits longer is told.
_SECONDS_BEFORE_TELLING = 1.0


@dataclass(frozen=True, eq=False, repr=False)
class Patience:
    """How to wait for a lock.

    Attributes:
        seconds: For how long at most; None for ever.
        tell: Called once with who holds the store's lock, when the wait is not over in a moment.
    """

    seconds: float | None = None
    tell: "Callable[[LockHolder], None] | None" = None


def acquire(
    descriptor: int, operation: int, patience: Patience, holder: "Callable[[], LockHolder]"
) -> None:
    """Take an `flock` on an open file, which the caller closes whatever happens.

    Args:
        descriptor: The file.
        operation: `LOCK_SH` or `LOCK_EX`.
        patience: How to wait.
        holder: Returns who holds the lock.

    Raises:
        LockTimeoutError: There is no more patience.
    """
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        pass
    else:
        return
    if patience.seconds is None and patience.tell is None:
        fcntl.flock(descriptor, operation)
        return
    wait = _Wait(descriptor, operation)
    first = _SECONDS_BEFORE_TELLING
    if patience.seconds is not None:
        first = min(first, patience.seconds)
    if not wait.ends_within(first):
        if patience.tell is not None:
            patience.tell(holder())
        rest = None if patience.seconds is None else patience.seconds - first
        if not wait.ends_within(rest):
            raise timed_out("the store is locked by another command", holder())
    if wait.failure is not None:
        raise wait.failure


def timed_out(what: str, holder: "LockHolder") -> LockTimeoutError:
    """Return the error for a wait that took too long."""
    return LockTimeoutError(
        what,
        cause=f"{holder} holds it",
        hint="wait longer, or for ever: --wait forever",
    )


class _Wait:
    """A wait inside the system that can be given up: a lock that comes too late is let go of at once."""

    def __init__(self, descriptor: int, operation: int) -> None:
        # The copy is the same opening of the file, so the lock is that of `descriptor` as well; and it lives for as
        # long as the wait, whoever closes the other one.
        self._copy = os.dup(descriptor)
        self._operation = operation
        self._over = threading.Event()
        self.failure: OSError | None = None
        threading.Thread(target=self._wait, name="lock", daemon=True).start()

    def ends_within(self, seconds: float | None) -> bool:
        return self._over.wait(seconds)

    def _wait(self) -> None:
        try:
            fcntl.flock(self._copy, self._operation)
        except OSError as error:
            self.failure = error
        finally:
            # With the caller's descriptor gone, this is the last one, and ends the lock.
            os.close(self._copy)
            self._over.set()
