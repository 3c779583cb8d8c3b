"""Work on a stream beside the thread that brings it."""

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")

_WAITING = 16


class Lane(Generic[Item]):
    """Work on items in their order, which goes on in a thread of its own from some item on.

    Ctrl-C may strike anywhere in here. So nothing but `SimpleQueue` is used, whose calls happen or do not: a
    `queue.Queue` that is interrupted may never again wake who waits for it.
    """

    def __init__(self, work: Callable[[Item], object]) -> None:
        self._work = work
        self._items: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        # One token for each item that may wait, so that slow work does not fill the memory.
        self._room: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._abandoned = False

    def take(self, item: Item, *, threaded: bool) -> None:
        """Work on `item`, or have the thread do it, which begins with the first item that may be `threaded`."""
        if self._thread is None and threaded:
            for _ in range(_WAITING):
                self._room.put(None)
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        if self._thread is None:
            self._work(item)
        else:
            self._room.get()
            self._items.put(item)

    def _run(self) -> None:
        while (item := self._items.get()) is not None:
            try:
                if self._failure is None and not self._abandoned:
                    self._work(item)
            except BaseException as error:  # noqa: BLE001 - raised again by `finish`, for whoever waits
                self._failure = error
            self._room.put(None)

    def finish(self) -> None:
        """Wait until all items were worked on."""
        if self._thread is not None:
            self._items.put(None)
            self._thread.join()
            self._thread = None
        if self._failure is not None:
            raise self._failure

    def abandon(self) -> None:
        """Let the thread end with the item that it works on; nobody waits for that."""
        self._abandoned = True
        self._items.put(None)
