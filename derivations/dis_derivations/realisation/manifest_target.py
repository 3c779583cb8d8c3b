"""Realise a target of a manifest: recall the plan, or check, lock, compile, build, keep."""

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from dis_derivations.lock.location import LockLocation
from dis_derivations.manifest.reading import RawManifest, read_manifest_files
from dis_derivations.realisation import plan_cache, rooting
from dis_derivations.realisation.silence import silent
from dis_derivations.realisation.target import RealisedTarget, TargetRequest
from dis_store import Store
from dis_store.errors import InterruptedBuildError

if TYPE_CHECKING:
    from dis_derivations.realisation.dry_run import DryRun
    from dis_derivations.realisation.events import Reporter
    from dis_derivations.realisation.manifest_build import ManifestBuild
    from dis_derivations.realisation.rebuild import Rebuild

_UNROOTED = (
    "no root keeps the result for its own sake, so `dis gc` may free it; "
    "give it one with --name or --out-link"
)


def realise_target(
    store: Store, request: TargetRequest, reporter: "Reporter" = silent
) -> RealisedTarget:
    """Return the target's outputs, building what is missing, and root them.

    Raises:
        InvalidInputError: The manifest, an override or the lock is invalid, or the lock is missing
            or stale and `request.locked` forbids to make one, or a root cannot be made.
        UnfitEnvironmentError: This version or this machine cannot do it; nothing was fetched.
        BuildError, IntegrityError: A build did not end well.
        InterruptedBuildError: The user interrupted; what is finished is kept.
    """
    try:
        return _realise(store, request, reporter)
    except KeyboardInterrupt:
        raise InterruptedBuildError(
            "interrupted", hint="run the same command again: it goes on from what is finished"
        ) from None


def _realise(store: Store, request: TargetRequest, reporter: "Reporter") -> RealisedTarget:
    rooting.check(store, request)
    raw = read_manifest_files(request.config, request.overrides)
    location = LockLocation.of(raw)
    if _may_recall(request, raw) and (known := _recall(store, raw, location, request)) is not None:
        return _keep(store, _directed(known, raw), request, reporter)
    # Only now is it known that there is work: the rest of the package, and pydantic with it, loads
    # here.
    from dis_derivations.realisation.manifest_build import ManifestBuild

    with closing(ManifestBuild.prepare(store, raw, location, request, reporter)) as build:
        return _build(store, raw, build, request, reporter)


def _build(
    store: Store,
    raw: RawManifest,
    build: "ManifestBuild",
    request: TargetRequest,
    reporter: "Reporter",
) -> RealisedTarget:
    try:
        # Rooted before anything else is tried: a rebuild that fails must not cost the first build.
        realised = _keep(store, _directed(build.realise(), raw), request, reporter)
    except InterruptedBuildError:
        if (finished := build.finished()) is not None:
            _keep(store, _directed(finished, raw), request, reporter)
        raise
    # What files have become since they were locked follows from no plan.
    if request.verify_digests and plan_cache.follows_from_files(raw):
        plan_cache.remember(
            store, plan_cache.plan_key(raw, build.used_lock.data, request), realised
        )
    rebuilds = tuple(_rebuild(store, build, raw, reporter) for _ in range(request.rebuilds))
    return replace(realised, rebuilds=rebuilds)


def plan_target(store: Store, request: TargetRequest) -> "DryRun":
    """Return what `realise_target` would build, without changing anything.

    What was found in the store is protected from collection until the store is closed.

    Raises:
        InvalidInputError, UnfitEnvironmentError: As `realise_target` would, before any work.
    """
    from dis_derivations.realisation.manifest_build import plan_build

    rooting.check(store, request)
    raw = read_manifest_files(request.config, request.overrides)
    return plan_build(store, raw, LockLocation.of(raw), request)


def _may_recall(request: TargetRequest, raw: RawManifest) -> bool:
    if request.image_check is not None and _names_image(raw):
        return False  # who vouches for it today follows from no file
    return request.verify_digests and not request.rebuilds and plan_cache.follows_from_files(raw)


def _names_image(raw: RawManifest) -> bool:
    runtime = raw.document.get("runtime")
    execution = runtime.get("execution") if isinstance(runtime, dict) else None
    return isinstance(execution, dict) and execution.get("vllm_image") is not None


def _recall(
    store: Store, raw: RawManifest, location: LockLocation, request: TargetRequest
) -> RealisedTarget | None:
    lock = location.read()
    return (
        None if lock is None else plan_cache.recall(store, plan_cache.plan_key(raw, lock, request))
    )


def _directed(realised: RealisedTarget, raw: RawManifest) -> RealisedTarget:
    """Add where the manifest wants its run to be laid out, compared with what, and kept and handed on how."""
    outputs = raw.document.get("outputs")
    if not isinstance(outputs, dict):
        return realised
    directed = replace(realised, output_directory=outputs.get("directory"))
    if realised.target != "run":
        return directed
    golden, policy = outputs.get("golden"), outputs.get("bundle_policy")
    if isinstance(golden, dict) and golden.get("enabled") is True:
        directed = replace(directed, golden=golden.get("path"))
    if isinstance(policy, dict):
        directed = replace(
            directed,
            include=tuple(policy.get("include") or ()),
            retention_days=policy.get("retention_days") or 0,
        )
    return directed


def _keep(
    store: Store, realised: RealisedTarget, request: TargetRequest, reporter: "Reporter"
) -> RealisedTarget:
    roots = rooting.keep(store, realised, request)
    if not roots:
        from dis_derivations.realisation.events import Event

        reporter(Event("note", request.target, _UNROOTED))
    return replace(realised, roots=roots)


def _rebuild(
    store: Store, build: "ManifestBuild", raw: RawManifest, reporter: "Reporter"
) -> "Rebuild":
    rebuild = build.rebuild()
    if rebuild.diverging is not None:
        name = rooting.keep_run(store, _directed(rebuild.diverging, raw))
        from dis_derivations.realisation.events import Event

        reporter(Event("note", rebuild.subject, f"the differing run is kept as {name}"))
    return rebuild
