"""The lock that a realisation works with: the one that is there, or one that is made first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dis_derivations.images.attestations import check_pinned_image
from dis_derivations.images.locked_image import check_locked_image
from dis_derivations.images.pinning import check_image_pinned
from dis_derivations.lock.document import Lock
from dis_derivations.lock.ingestion import GroupPlan
from dis_derivations.lock.location import LockLocation
from dis_derivations.lock.making import make_lock
from dis_derivations.lock.present_files import read_present
from dis_derivations.lock.staleness import stale_artifacts
from dis_derivations.lock.unverified_digests import FLAG, UnverifiedDigests
from dis_derivations.manifest.artifact_groups import WEIGHTS
from dis_derivations.manifest.loading import LoadedManifest
from dis_derivations.realisation import preflight
from dis_derivations.realisation.events import Event, Reporter
from dis_derivations.realisation.target import TargetRequest
from dis_store import Store
from dis_store.errors import InvalidInputError


@dataclass(frozen=True)
class LockState:
    """The lock of a manifest as it is before a realisation.

    Attributes:
        lock: What fits the manifest; None where there is no lock yet, or a stale one.
        data: The bytes of what is there.
        reason: Why the manifest must be locked first; empty if it need not.
    """

    lock: Lock | None
    data: bytes
    reason: str = ""


@dataclass(frozen=True)
class UsedLock:
    """A lock that fits its manifest.

    Attributes:
        lock: The lock.
        data: Its bytes as they are where it is kept.
        present: The same files with the digests that were found, where those of the lock are not to be verified.
    """

    lock: Lock
    data: bytes
    present: Lock | None = None

    @property
    def unverified(self) -> UnverifiedDigests | None:
        """What is used in place of what the lock declares; None where the lock is held to."""
        return None if self.present is None else UnverifiedDigests.between(self.lock, self.present)


def lock_state(loaded: LoadedManifest, location: LockLocation, request: TargetRequest) -> LockState:
    """Return whether the manifest must be locked before anything can be built.

    Raises:
        InvalidInputError: It must, and the request forbids that, or the lock cannot be replaced;
            or what is there is no lock.
        IntegrityError: What is there contradicts itself.
        UnfitEnvironmentError: It must, and the new lock could not be written.
    """
    data = location.read()
    if data is None:
        state = LockState(None, b"", "there is no lock yet")
    else:
        lock = Lock.decode(data, name=str(location.path or "the embedded lock"))
        check_locked_image(lock)
        stale = stale_artifacts(loaded, lock)
        if not stale:
            return LockState(lock, data)
        state = LockState(None, data, f"the lock is stale for {', '.join(stale)}")
    if request.locked or not request.verify_digests:
        raise InvalidInputError(
            f"{loaded.path} cannot be realised with {'--locked' if request.locked else FLAG}: {state.reason}",
            hint=f"dis lock {loaded.path}",
        )
    check_image_pinned(loaded, None if data is None else stale)
    location.check_writable()
    return state


def ensure_lock(
    store: Store,
    loaded: LoadedManifest,
    location: LockLocation,
    request: TargetRequest,
    reporter: Reporter,
) -> UsedLock:
    """Return the lock of a manifest, making or renewing it first unless the request forbids that.

    Without verification of its digests the locked files are read from their sources as they are now. The lock is never
    changed then, so it must be there and fit.

    Raises:
        InvalidInputError, UnfitEnvironmentError: As `lock_state`, or before a byte is read, when disk
            or memory cannot be enough or no engine runs the model.
        LockRefusedError: Something cannot be pinned, or without verification cannot be taken.
        UntrustedError: Nobody vouches for its image, and somebody must.
    """
    state = lock_state(loaded, location, request)
    if state.lock is not None:
        check_pinned_image(request.image_check, loaded, state.lock.sources, reporter)
    if state.lock is not None and request.verify_digests:
        return UsedLock(state.lock, state.data)
    preflight.check_model(loaded, ask_hub=state.lock is None)
    check_reading = _reading_check(store, request, loaded)
    if state.lock is not None:
        present = read_present(
            loaded, store, state.lock, before_reading=check_reading, reporter=reporter
        )
        # What was asked about is what the lock says, so the image must be that one all the same.
        check_locked_image(present)
        return UsedLock(state.lock, state.data, present)
    lock, path = make_lock(
        store,
        loaded,
        location,
        before_reading=check_reading,
        image_check=request.image_check,
        reporter=reporter,
    )
    reporter(
        Event(
            "note",
            str(loaded.path),
            f"{state.reason}: locked {len(lock.artifacts)} files in {path}",
        )
    )
    return UsedLock(lock, lock.encode())


def _reading_check(
    store: Store, request: TargetRequest, loaded: LoadedManifest
) -> Callable[[Sequence[GroupPlan]], None]:
    """Return what refuses to read more than disk and memory can hold."""

    def check(plans: Sequence[GroupPlan]) -> None:
        sizes = {plan.group.name: plan.size for plan in plans}
        preflight.check_room(
            store, sum(sizes.values()), files=sum(len(plan.files) for plan in plans)
        )
        if preflight.generates(request.target):
            preflight.check_memory(sizes.get(WEIGHTS, 0), loaded.document)

    return check
