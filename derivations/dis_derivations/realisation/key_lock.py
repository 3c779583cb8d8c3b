"""Being the only builder of a key, after a wait that an interruption can end."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import InterruptedBuildError

if TYPE_CHECKING:
    from dis_store.lock_holder import LockHolder

# A wait inside the system could be ended by nobody: the thread that waits is not the one that
# signals reach.
_SECONDS_BETWEEN_TRIES = 0.1


class Stop(Protocol):
    """What can end a wait, as `threading.Event` does."""

    def wait(self, timeout: float) -> bool:
        """Wait for at most so many seconds; return whether the wait is to end."""
        ...


class _HeldElsewhereError(Exception):
    """Somebody else holds the lock now."""


@contextmanager
def sole_builder(
    store: Store, key: Digest, stop: Stop, on_wait: Callable[["LockHolder"], None]
) -> Iterator[None]:
    """Hold the build lock of `key` for the time of a block.

    Args:
        store: Has the lock.
        key: What is built.
        stop: Ends the wait when it is set.
        on_wait: Called once, before waiting, with who holds the lock.

    Raises:
        InterruptedBuildError: `stop` was set while another builder held the lock.
        LockTimeoutError: Another builder held it for longer than the store has patience.
    """
    began: float | None = None

    def refuse(holder: "LockHolder") -> None:
        nonlocal began
        if began is None:
            began = time.monotonic()
            on_wait(holder)
        if _is_over(store, began):
            from dis_store.patience import timed_out

            raise timed_out(f"the build {key[:12]} is made by another process", holder)
        raise _HeldElsewhereError

    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(store.build_lock(key, refuse))
                break
            except _HeldElsewhereError:
                if stop.wait(_SECONDS_BETWEEN_TRIES):
                    raise InterruptedBuildError("interrupted while another build went on") from None
        yield


def _is_over(store: Store, began: float) -> bool:
    seconds = None if store.patience is None else store.patience.seconds
    return seconds is not None and time.monotonic() - began >= seconds
