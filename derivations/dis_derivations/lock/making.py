"""`dis lock` as a function: resolve what is not pinned yet, and write the lock where it belongs."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.environments.locking import plan_packages
from dis_derivations.lock.document import Lock
from dis_derivations.lock.ingestion import GroupPlan
from dis_derivations.lock.location import LockLocation
from dis_derivations.lock.publishing import is_published
from dis_derivations.lock.resolution import (
    Gate,
    always,
    never_interrupted,
    plan_lock,
    resolve_lock,
)
from dis_derivations.manifest.loading import LoadedManifest
from dis_derivations.realisation.events import Reporter
from dis_derivations.realisation.silence import silent
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.realisation.target import ImageCheck
    from dis_store import Store


@dataclass(frozen=True)
class PlannedLock:
    """What making a lock would do.

    Attributes:
        path: Where it is, or would be written.
        reads: What would be read into the store.
        kept: How many files stay pinned as they are.
        written: Whether the lock would be written anew.
    """

    path: Path | None
    reads: tuple[GroupPlan, ...]
    kept: int
    written: bool


def plan_new_lock(
    store: "Store",
    loaded: LoadedManifest,
    location: LockLocation,
    *,
    update: Collection[str] = (),
    fetch: bool = True,
) -> PlannedLock:
    """Return what `make_lock` would do, reading and writing nothing.

    Raises:
        LockRefusedError, InvalidInputError, UnfitEnvironmentError: As `make_lock`, as far as it can be told without
            reading.
    """
    previous = _previous(location)
    # What is refused is known before pip is asked.
    files = plan_lock(loaded, previous=previous, update=update, store=store)
    packages = plan_packages(loaded, store, previous, update, never_interrupted)
    plans = (*files, *packages.plans)
    read = {plan.group.name for plan in plans}
    kept = [file for file in (previous.artifacts if previous else ()) if file.name not in read]
    # With nothing to be read, resolving does nothing but think.
    same = not plans and resolve_lock(loaded, store, previous=previous) is previous
    if not same:
        location.check_writable()
    reads = tuple(plan for plan in plans if fetch or not is_published(plan))
    return PlannedLock(location.path, reads, len(kept), written=not same)


def existing_lock(location: LockLocation, loaded: LoadedManifest) -> Lock:
    """Return the lock that is there.

    Raises:
        InvalidInputError: There is none, or it cannot be read.
    """
    lock = _previous(location)
    if lock is None:
        raise InvalidInputError(f"{loaded.path} has no lock yet", hint=f"dis lock {loaded.path}")
    return lock


def _previous(location: LockLocation) -> Lock | None:
    data = location.read()
    name = "the embedded lock" if location.path is None else str(location.path)
    return None if data is None else Lock.decode(data, name=name)


def make_lock(
    store: "Store",
    loaded: LoadedManifest,
    location: LockLocation,
    *,
    update: Collection[str] = (),
    fetch: bool = True,
    before_reading: Callable[[Sequence[GroupPlan]], None] = always,
    image_check: "ImageCheck | None" = None,
    reporter: Reporter = silent,
) -> tuple[Lock, Path]:
    """Return the lock of a manifest and the file it was written to.

    Args:
        store: Gets the files of local sources.
        loaded: The manifest.
        location: Where the lock is, if there is one, and goes. A lock that would not change is not written.
        update: Names of artifacts to pin again.
        fetch: Whether the files of a hub and of an index are fetched; else the digests that they publish are taken.
        before_reading: Told what is going to be read; may raise to prevent it.
        image_check: Refuses an image that nobody vouches for, before anything is read; None where nobody need.
        reporter: Told how much was read.

    Raises:
        LockRefusedError: Lists every item that cannot be pinned, and why.
        InvalidInputError: The lock that is there cannot be read, or `update` names no artifact.
        UnfitEnvironmentError: The lock cannot be written.
    """
    previous = _previous(location)

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
        fetch=fetch,
        gate=Gate(check_reading, image_check),
        reporter=reporter,
    )
    if lock is previous and location.path is not None:
        return lock, location.path
    return lock, location.write(lock.encode())
