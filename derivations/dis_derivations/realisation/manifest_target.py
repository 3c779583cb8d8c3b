"""Realise a target of a manifest: recall the plan, or check, lock, compile, build, keep."""

from dis_derivations.lock.location import LockLocation
from dis_derivations.manifest.reading import RawManifest, read_manifest_files
from dis_derivations.realisation import plan_cache, rooting
from dis_derivations.realisation.events import Event, Reporter, silent
from dis_derivations.realisation.target import DryRun, RealisedTarget, TargetRequest
from dis_store import Store


def realise_target(
    store: Store, request: TargetRequest, reporter: Reporter = silent
) -> RealisedTarget:
    """Return the target's outputs, building what is missing, and root them.

    Raises:
        InvalidInputError: The manifest, an override or the lock is invalid, or the lock is missing
            or stale and `request.locked` forbids to make one.
        UnfitEnvironmentError: This version or this machine cannot do it; nothing was fetched.
        BuildError, IntegrityError, InterruptedBuildError: A build did not end well.
    """
    raw = read_manifest_files(request.config, request.overrides)
    location = LockLocation.of(raw)
    realised = None if request.rebuilds else _recall(store, raw, location, request)
    if realised is None:
        # Only now is it known that there is work: the rest of the package, and pydantic with it,
        # loads here.
        from dis_derivations.realisation.manifest_build import ManifestBuild

        realised = ManifestBuild.prepare(store, raw, location, request, reporter).realise()
        if (lock := location.read()) is not None:
            plan_cache.remember(store, plan_cache.plan_key(raw, lock, request), realised)
    return rooting.keep(
        store, realised, request, lambda text: reporter(Event("note", request.target, text))
    )


def plan_target(store: Store, request: TargetRequest) -> DryRun:
    """Return what `realise_target` would build, without changing anything but the store's derivation records.

    Raises:
        InvalidInputError, UnfitEnvironmentError: As `realise_target` would, before any work.
    """
    from dis_derivations.realisation.manifest_build import plan_build

    raw = read_manifest_files(request.config, request.overrides)
    return plan_build(store, raw, LockLocation.of(raw), request)


def _recall(
    store: Store, raw: RawManifest, location: LockLocation, request: TargetRequest
) -> RealisedTarget | None:
    lock = location.read()
    return (
        None if lock is None else plan_cache.recall(store, plan_cache.plan_key(raw, lock, request))
    )
