"""What commands that speak to registries share: progress, and references with what they need."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dis_derivations.distribution.workers import Stop
    from dis_derivations.realisation.events import Reporter
    from dis_derivations.registry.reference import RegistryReference
    from dis_store import Root, Store

Progress = Callable[[int, int], None]


@contextmanager
def transferring(
    reporter: "Reporter", reference: "RegistryReference", *, text: str, finished: str
) -> Iterator[Progress]:
    """Report that bytes come from a registry or go there; gives what is told of them.

    Args:
        reporter: Told of it.
        reference: The registry's side.
        text: What is done.
        finished: What was done.
    """
    import threading

    from dis_derivations.realisation.events import Measure
    from dis_derivations.realisation.gauge import measured

    came, lock = 0, threading.Lock()
    with measured(
        reporter, str(reference.base), text, Measure("bytes", 0), finished=finished
    ) as gauge:

        def progress(amount: int, total: int) -> None:
            nonlocal came
            with lock:
                came += amount
                gauge.show(Measure("bytes", came, total))

        yield progress


@contextmanager
def interruptible() -> "Iterator[Stop]":
    """Give what stops the work when the user interrupts.

    Raises:
        InterruptedBuildError: The user did.
    """
    from dis_derivations.distribution.workers import Stop
    from dis_store.errors import InterruptedBuildError

    stop = Stop()
    try:
        yield stop
    except KeyboardInterrupt:
        stop.set()
        raise InterruptedBuildError(
            "interrupted", hint="run the same command again: it goes on from what has arrived"
        ) from None


def root_of_ref(store: "Store", ref: str) -> "Root":
    """Return the root that a REF names, or one for the object that it names.

    Raises:
        InvalidInputError: It names no object.
    """
    from dis_derivations.runs.reference import resolve
    from dis_store import Root

    resolved = resolve(store, ref)
    return resolved.entry or Root(resolved.object())
