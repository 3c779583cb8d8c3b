"""What the commands that build say of a realised target, as JSON documents."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dis_derivations.realisation.dry_run import DryRun
    from dis_derivations.realisation.target import RealisedTarget
    from dis_store import Store
    from dis_store.digest import Digest


def outputs_document(store: "Store", outputs: Mapping[str, "Digest"]) -> dict[str, dict[str, str]]:
    """Return digest and store path of each output."""
    return {
        name: {"digest": str(digest), "path": str(store.object_path(digest))}
        for name, digest in outputs.items()
    }


def realised_document(store: "Store", realised: "RealisedTarget") -> dict[str, Any]:
    """Return the document of `dis realize --json` (docs/reference/commands.md)."""
    return {
        "schema_version": 1,
        "target": realised.target,
        "derivation": str(realised.derivation),
        "cached": realised.cached,
        "outputs": outputs_document(store, realised.outputs),
        "roots": list(realised.roots),
        "artifact_digests_verified": realised.unverified is None,
        "rebuilds": [
            {
                "subject": rebuild.subject,
                "identical": rebuild.identical,
                "differing": list(rebuild.differing),
                "outputs": outputs_document(store, rebuild.outputs),
                "bundle": rebuild.bundle,
            }
            for rebuild in realised.rebuilds
        ],
    }


def dry_run_document(plan: "DryRun") -> dict[str, Any]:
    """Return the document of `dis realize --dry-run --json`."""
    return {
        "schema_version": 1,
        "target": plan.target,
        "dry_run": True,
        "locks": plan.locks,
        "builds": [
            {
                "name": build.name,
                "builder": build.builder,
                "derivation": str(build.derivation),
                "fetched_bytes": build.fetched_bytes,
                "from": build.origin or None,
            }
            for build in plan.builds
        ],
        "substitutions": [
            {
                "name": each.name,
                "builder": each.builder,
                "derivation": str(each.derivation),
                "fetched_bytes": each.fetched_bytes,
                "from": each.origin,
                "proof": each.proof,
            }
            for each in plan.substitutions.taken
        ],
        "refused_substitutions": [
            {
                "name": each.name,
                "derivation": str(each.derivation),
                "from": each.origin,
                "reason": each.reason,
            }
            for each in plan.substitutions.refused
        ],
        "downloads": [
            {
                "name": each.artifact,
                "path": each.path,
                "size": each.size,
                "from": each.origin,
            }
            for each in plan.downloads
        ],
    }
