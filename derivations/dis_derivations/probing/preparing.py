"""From a manifest's file to a laboratory: read, checked, locked."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dis_derivations.lock.document import Lock
from dis_derivations.lock.location import LockLocation
from dis_derivations.manifest.loading import LoadedManifest, validate
from dis_derivations.manifest.reading import RawManifest, read_manifest_files
from dis_derivations.probing.experiment import CheckName
from dis_derivations.probing.laboratory import Laboratory
from dis_derivations.probing.manifests import probed
from dis_derivations.probing.probe import ProbePlan, planned
from dis_derivations.realisation import preflight
from dis_derivations.realisation.hardware_check import check_hardware
from dis_derivations.realisation.locking import ensure_lock, lock_state

if TYPE_CHECKING:
    from dis_derivations.realisation.events import Reporter
    from dis_derivations.realisation.target import TargetRequest
    from dis_store import Store


@contextmanager
def laboratory_for(
    store: "Store", request: "TargetRequest", reporter: "Reporter"
) -> Iterator[Laboratory]:
    """Give a laboratory for a manifest, locking it where that is needed.

    Raises:
        InvalidInputError, UnfitEnvironmentError: Before a byte is fetched.
        LockRefusedError: Something cannot be pinned.
    """
    raw, loaded = _checked(request)
    used = ensure_lock(store, loaded, LockLocation.of(raw), request, reporter)
    with _laboratory(store, loaded, used.lock, request) as laboratory:
        laboratory.reporter = reporter
        yield laboratory


def plan_probe(store: "Store", request: "TargetRequest", names: Sequence[CheckName]) -> ProbePlan:
    """Return what a probe of a manifest would do; nothing is locked or built.

    Raises:
        InvalidInputError, UnfitEnvironmentError: As the probe would, before any work.
    """
    raw, loaded = _checked(request)
    lock = lock_state(loaded, LockLocation.of(raw), request).lock
    if lock is None:
        return planned(loaded.document, names, None)
    laboratory = _laboratory(store, loaded, lock, request)
    laboratory.builds = False
    return planned(laboratory.loaded.document, names, laboratory)


def _laboratory(
    store: "Store", loaded: LoadedManifest, lock: Lock, request: "TargetRequest"
) -> Laboratory:
    return Laboratory(store, probed(loaded), lock, request)


def _checked(request: "TargetRequest") -> tuple[RawManifest, LoadedManifest]:
    raw = read_manifest_files(request.config, request.overrides)
    loaded = validate(raw)
    preflight.check_manifest(loaded.document)
    check_hardware(loaded.document)
    return raw, loaded
