"""The path of a realisation that has nothing to do: read the files, hash them, one query, done.

This module is what `dis realize` imports first, so it and what it imports load neither pydantic,
numpy nor rfc8785.
"""

import json
from collections.abc import Mapping

from dis_derivations.manifest.reading import RawManifest
from dis_derivations.realisation.target import RealisedTarget, TargetRequest
from dis_derivations.tokenization.library_versions import library_versions
from dis_derivations.version import VERSION
from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import IntegrityError

# Raised with every change of what a manifest compiles to between two versions of dis, so that an old
# plan is not taken for a new one.
PLAN_VERSION = 2


def plan_key(raw: RawManifest, lock: bytes, request: TargetRequest) -> Digest:
    """Return the key of a plan: everything that a target's outputs follow from, without compiling anything.

    Args:
        raw: The manifest's files and overrides as they were read.
        lock: The bytes of its lock.
        request: Gives the target and the overrides.
    """
    parts: Mapping[str, object] = {
        "versions": [VERSION, PLAN_VERSION],
        "libraries": library_versions(),
        "files": [Digest.of(file.data) for file in raw.files],
        "lock": Digest.of(lock),
        "target": request.target,
        "overrides": request.overrides,
    }
    return Digest.of(json.dumps(parts, sort_keys=True).encode())


def follows_from_files(raw: RawManifest) -> bool:
    """Tell whether a plan follows from what is hashed for it.

    For an engine that is no part of dis it does not: what is installed, and the machine, must be looked at each time.
    """
    runtime = raw.document.get("runtime")
    execution = runtime.get("execution") if isinstance(runtime, dict) else None
    return isinstance(execution, dict) and execution.get("backend") in {"reference", "mock"}


def recall(store: Store, key: Digest) -> RealisedTarget | None:
    """Return the target of a plan whose outputs are still valid, now protected from collection, or None."""
    value = store.recall_plan(key)
    if value is None:
        return None
    plan = json.loads(value)
    derivation = Digest(plan["derivation"])
    if not _keeps_derivation(store, derivation):
        return None
    return RealisedTarget(
        target=plan["target"],
        name=plan["name"],
        derivation=derivation,
        key=Digest(plan["key"]),
        outputs={name: Digest(digest) for name, digest in plan["outputs"].items()},
        cached=True,
    )


def _keeps_derivation(store: Store, derivation: Digest) -> bool:
    """Tell whether a derivation is still there, now protected: another one may have left the same outputs."""
    store.protect(derivation)
    try:
        store.derivation(derivation)
    except IntegrityError:
        return False
    return True


def remember(store: Store, key: Digest, realised: RealisedTarget) -> None:
    """Remember what a plan led to."""
    value = {
        "target": realised.target,
        "name": realised.name,
        "derivation": realised.derivation,
        "key": realised.key,
        "outputs": dict(realised.outputs),
    }
    store.remember_plan(key, json.dumps(value), list(realised.outputs.values()))
