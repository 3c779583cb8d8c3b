"""What `dis build` says of a runtime closure: what an engine loads, by digest and size."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dis_derivations.realisation.target import TargetRequest
from dis_store import strict_json
from dis_store.digest import Digest

if TYPE_CHECKING:
    from dis_derivations.lock.document import Lock
    from dis_derivations.manifest.loading import LoadedManifest
    from dis_derivations.realisation.dry_run import DryRun
    from dis_derivations.realisation.events import Reporter
    from dis_store import Store

KIND = "vllm.runtime_closure"
_TARGET = "closure"


def build_closure(
    store: "Store", request: TargetRequest, reporter: "Reporter", *, update_lock: bool = False
) -> dict[str, Any]:
    """Realise the closure of a manifest, and return its metadata. No path or time is in it.

    Args:
        store: Where the closure goes.
        request: The manifest, and how to build; its target is not looked at.
        reporter: Told of the builds.
        update_lock: Pin every artifact of the manifest again first.

    Raises:
        DisError: As `realise_target` and, with `update_lock`, as `make_lock`.
    """
    from dis_derivations.manifest.loading import load_manifest
    from dis_derivations.realisation.manifest_target import realise_target

    if update_lock:
        _lock_again(store, request, reporter)
    realised = realise_target(store, replace(request, target=_TARGET), reporter)
    loaded = load_manifest(request.config, request.overrides)
    return {
        "schema_version": 1,
        "kind": KIND,
        "name": realised.name,
        "manifest_id": str(loaded.manifest_id),
        "lock_id": str(_lock_of(loaded).lock_id),
        "derivation": str(realised.derivation),
        **_described(store, realised.main_output),
    }


def plan_closure(store: "Store", request: TargetRequest, *, update_lock: bool = False) -> "DryRun":
    """Return what `build_closure` would build, without changing anything.

    Raises:
        DisError: As `build_closure` would, before any work.
    """
    from dis_derivations.realisation.manifest_target import plan_target

    plan = plan_target(store, replace(request, target=_TARGET))
    return replace(plan, locks=True, builds=()) if update_lock else plan


def _described(store: "Store", closure: Digest) -> dict[str, Any]:
    from dis_derivations.builders.closure import CLOSURE_DOCUMENT

    document = strict_json.decode(
        store.read_bytes(closure, CLOSURE_DOCUMENT), name=CLOSURE_DOCUMENT
    )
    objects = store.closure([closure])
    return {
        "closure": str(closure),
        "engine": document["engine"],
        "size": store.closure_size(closure),
        "objects": [
            {"digest": str(digest), "size": store.object_size(digest)} for digest in objects
        ],
        "files": [
            {"path": file.path, "size": file.size, "object": str(file.owner)}
            for file in store.files(closure)
        ],
    }


def _lock_again(store: "Store", request: TargetRequest, reporter: "Reporter") -> None:
    from dis_derivations.environments.locking import package_names
    from dis_derivations.lock.location import LockLocation
    from dis_derivations.lock.making import make_lock
    from dis_derivations.manifest.artifact_groups import artifact_groups
    from dis_derivations.manifest.loading import load_manifest

    loaded = load_manifest(request.config, request.overrides)
    names = [group.name for group in artifact_groups(loaded)]
    names += package_names(loaded, None)
    make_lock(store, loaded, LockLocation.of(loaded.raw), update=names, reporter=reporter)


def _lock_of(loaded: "LoadedManifest") -> "Lock":
    """Return the lock that the realisation used: it made one where none was there."""
    from dis_derivations.lock.document import Lock
    from dis_derivations.lock.location import LockLocation

    location = LockLocation.of(loaded.raw)
    return Lock.decode(location.read() or b"", name=str(location.path or "the embedded lock"))
