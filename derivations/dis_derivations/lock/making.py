"""`dis lock` as a function: resolve what is not pinned yet, and write the lock where it belongs."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.lock.document import Lock
from dis_derivations.lock.ingestion import GroupPlan
from dis_derivations.lock.location import LockLocation
from dis_derivations.lock.resolution import always, resolve_lock
from dis_derivations.manifest.loading import LoadedManifest
from dis_derivations.realisation.events import Reporter
from dis_derivations.realisation.silence import silent

if TYPE_CHECKING:
    from dis_store import Store


def make_lock(
    store: "Store",
    loaded: LoadedManifest,
    location: LockLocation,
    *,
    update: Collection[str] = (),
    before_reading: Callable[[Sequence[GroupPlan]], None] = always,
    reporter: Reporter = silent,
) -> tuple[Lock, Path]:
    """Return the lock of a manifest and the file it was written to.

    Args:
        store: Gets the files of local sources.
        loaded: The manifest.
        location: Where the lock is, if there is one, and goes. A lock that would not change is not written.
        update: Names of artifacts to pin again.
        before_reading: Told what is going to be read; may raise to prevent it.
        reporter: Told how much was read.

    Raises:
        LockRefusedError: Lists every item that cannot be pinned, and why.
        InvalidInputError: The lock that is there cannot be read, or `update` names no artifact.
        UnfitEnvironmentError: The lock cannot be written.
    """
    data = location.read()
    name = "the embedded lock" if location.path is None else str(location.path)
    previous = None if data is None else Lock.decode(data, name=name)

    def check_reading(plans: Sequence[GroupPlan]) -> None:
        # Not after gigabytes were read for a lock that cannot be written.
        if plans:
            location.check_writable()
        before_reading(plans)

    lock = resolve_lock(
        loaded,
        store,
        previous=previous,
        update=update,
        before_reading=check_reading,
        reporter=reporter,
    )
    if lock is previous and location.path is not None:
        return lock, location.path
    return lock, location.write(lock.encode())
