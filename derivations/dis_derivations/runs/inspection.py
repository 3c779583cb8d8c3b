"""What there is to know about a manifest, a lock, a run or an object, as one document."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dis_derivations.lock.unverified_digests import MEMBER
from dis_derivations.runs.reference import Resolved
from dis_derivations.runs.roots import longest_kept
from dis_store.digest import Digest

if TYPE_CHECKING:
    from dis_derivations.distribution.remote_objects import RemoteObjects
    from dis_derivations.runs.bundle_reader import BundleReader
    from dis_store import Store


def describe(store: "Store", resolved: Resolved) -> dict[str, Any]:
    """Return the facts about what a REF names; `kind` says which they are (docs/reference/commands.md).

    Raises:
        DisError: The file or object is invalid or damaged.
    """
    match resolved:
        case Resolved(kind="manifest", path=Path() as path):
            return {"kind": "manifest", **_manifest(path)}
        case Resolved(kind="lock", path=Path() as path):
            return {"kind": "lock", **_lock(path)}
        case Resolved(kind="object", digest=Digest() as digest, remote=None):
            return {"kind": "object", **_object(store, digest)}
        case Resolved(kind="object", remote=remote) if remote is not None:
            return {"kind": "object", **_remote_object(remote, remote.root)}
        case _:
            return {"kind": "run", **_run(store, resolved)}


def _manifest(path: Path) -> dict[str, Any]:
    from dis_derivations.manifest.artifact_groups import artifact_groups
    from dis_derivations.manifest.loading import load_manifest

    loaded = load_manifest(path)
    document = loaded.document
    inference = document["inference"]
    return {
        "files": [str(file.path) for file in loaded.files],
        "name": document["metadata"]["name"],
        "description": document["metadata"]["description"],
        "manifest_id": str(loaded.manifest_id),
        "engine": document["runtime"]["execution"]["backend"],
        "model": document["vllm"].get("engine_args", {}).get("model"),
        "requests": inference.get("n_prompts") or len(inference.get("requests") or ()),
        "artifacts": [
            {"name": group.name, "source": group.source.type, "location": _location(group.source)}
            for group in artifact_groups(loaded)
        ],
        "lock": _lock_state(loaded),
    }


def _location(source: Any) -> str | None:
    place = source.location or source.repository or source.url
    return None if place is None else str(place)


def _lock_state(loaded: Any) -> dict[str, Any]:
    """Return where the manifest's lock is, and whether it fits."""
    from dis_derivations.lock.document import Lock
    from dis_derivations.lock.location import LockLocation
    from dis_derivations.lock.staleness import stale_artifacts

    location = LockLocation.of(loaded.raw)
    path = None if location.path is None else str(location.path)
    data = location.read()
    if data is None:
        return {"path": path, "state": "missing", "lock_id": None, "stale": []}
    lock = Lock.decode(data, name=path or "the embedded lock")
    stale = stale_artifacts(loaded, lock)
    return {
        "path": path,
        "state": "stale" if stale else "fits",
        "lock_id": str(lock.lock_id),
        "stale": stale,
    }


def _lock(path: Path) -> dict[str, Any]:
    from dis_derivations.lock.document import Lock

    lock = Lock.decode(path.read_bytes(), name=str(path))
    return {
        "path": str(path),
        "lock_id": str(lock.lock_id),
        "manifest_id": str(lock.manifest_id),
        "generated_at": lock.generated_at,
        "size": sum(file.size for file in lock.artifacts),
        "artifacts": [
            {**file.identity, "digest_source": file.digest_source} for file in lock.artifacts
        ],
    }


def _object(store: "Store", digest: Digest) -> dict[str, Any]:
    return {
        "digest": str(digest),
        "path": str(store.object_path(digest)),
        "size": store.object_size(digest),
        "closure_size": store.closure_size(digest),
        "roots": sorted(
            name for name, root in store.survey_roots().good.items() if root.object == digest
        ),
        "entries": [entry.to_json() for entry in store.tree(digest).entries],
    }


def _remote_object(remote: "RemoteObjects", digest: Digest) -> dict[str, Any]:
    return {
        "digest": str(digest),
        "path": str(remote.closure.reference),
        "size": remote.tree(digest).size,
        "closure_size": None,
        "roots": [],
        "entries": [entry.to_json() for entry in remote.tree(digest).entries],
    }


def _place(store: "Store", resolved: Resolved, digest: Digest | None) -> str:
    if resolved.remote is not None:
        return str(resolved.remote.closure.reference)
    return str(resolved.path if digest is None or resolved.path else store.object_path(digest))


def _run(store: "Store", resolved: Resolved) -> dict[str, Any]:
    from dis_derivations.runs.bundle_documents import load_bundle

    bundle = load_bundle(resolved.bundle(store))
    document, digest = bundle.document, bundle.reader.digest()
    return {
        "bundle": None if digest is None else str(digest),
        "path": _place(store, resolved, digest),
        "name": document.name,
        "run_id": str(document.run_id),
        "manifest_id": str(document.manifest_id),
        "lock_id": str(document.lock_id),
        "engine": dict(bundle.engine),
        "platform": {"class": document.platform_class, "facts": dict(document.platform_facts)},
        "hardware": {"conformant": document.conformant, "reasons": list(document.reasons)},
        "grade": document.grade,
        MEMBER: {"verified": True}
        if document.unverified is None
        else document.unverified.to_json(),
        "capture": dict(document.capture),
        "inputs": _digests(document.inputs),
        "results": str(document.results),
        "sequences": len(bundle.sequences),
        "output_tokens": sum(len(sequence.output_token_ids) for sequence in bundle.sequences),
        "files": [
            {"path": name, "size": _size(bundle.reader, name)} for name in bundle.reader.names()
        ],
        "left_out": [entry.to_json() for entry in bundle.reader.left_out().values()],
        "kept_until": _kept_until(store, resolved),
    }


def _kept_until(store: "Store", resolved: Resolved) -> str | None:
    """Return until when a run of the store is kept because its manifest says so."""
    found = None if resolved.digest is None else longest_kept(store, resolved.digest)
    return None if found is None else found.until.isoformat(timespec="seconds")


def _size(reader: "BundleReader", name: str) -> int:
    from dis_derivations.runs.remote_bundle import RemoteBundle

    if isinstance(reader, RemoteBundle):
        return reader.size(name)
    return reader.path(name).stat().st_size


def _digests(digests: Mapping[str, Digest]) -> dict[str, str]:
    return {name: str(digest) for name, digest in digests.items()}
