"""Several files of an image at a time: the first that fails ends the others."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from dis_derivations.sources.source import WantedFile
from dis_store.errors import InterruptedBuildError

_Written = TypeVar("_Written")


def write_all(
    write: Callable[[WantedFile, Callable[[int], None]], _Written],
    files: Sequence[WantedFile],
    at_once: int,
    on_bytes: Callable[[int], None],
) -> list[_Written]:
    """Return what writing each file gives, in the order of the files.

    Args:
        write: Writes a file, and tells of its bytes as they come; told to stop when that raises.
        files: Which.
        at_once: How many at a time.
        on_bytes: Told of the bytes of all of them, from several threads.

    Raises:
        DisError: What the first failure was.
    """
    if at_once == 1 or len(files) == 1:
        return [write(file, on_bytes) for file in files]
    stop = threading.Event()

    def count(amount: int) -> None:
        if stop.is_set():
            raise InterruptedBuildError("the other files of the image are not fetched any more")
        on_bytes(amount)

    with ThreadPoolExecutor(at_once, thread_name_prefix="dis-image") as pool:
        futures = [pool.submit(write, file, count) for file in files]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                if (failure := future.exception()) is not None:
                    raise failure
            return [future.result() for future in futures]
        finally:
            # Also when the user interrupts, which only this thread hears of.
            stop.set()
            for future in futures:
                future.cancel()
