"""Hybrid runs: the manifest and the lock of one run with some differences taken from another.

A hybrid is compiled like any manifest, so its derivations are ordinary ones: what was built for one is found again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dis_derivations.bisection.differences import Difference, with_fields
from dis_derivations.lock.document import Lock, LockedFile
from dis_derivations.manifest.loading import LoadedManifest, validate
from dis_derivations.manifest.reading import RawManifest, SourceFile
from dis_derivations.runs.bundle_documents import Bundle
from dis_store import canonical_json
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError

HYBRID_NAME = "hybrid.json"
# A bundle does not say when its lock was made, and nothing depends on it.
_NO_TIME = "1970-01-01T00:00:00Z"
# What an identity leaves out says only where things are; a manifest must have it, and nothing is read there.
_NOWHERE = "."


@dataclass(frozen=True)
class Hybrid:
    """A run that nobody asked for as such.

    Attributes:
        taken: The differences that come from B; all others come from A.
        loaded: Its manifest.
        lock: Its lock.
    """

    taken: tuple[Difference, ...]
    loaded: LoadedManifest
    lock: Lock


def hybrid(a: Bundle, b: Bundle, taken: Iterable[Difference]) -> Hybrid:
    """Return the run that is A but for some differences, which are B's.

    Raises:
        InvalidInputError: A's manifest with B's fields is no valid one, or what one run used is not what it locked.
    """
    chosen = tuple(taken)
    for bundle in (a, b):
        _refuse_unverified(bundle)
    document = with_fields(a.manifest, tuple(field for each in chosen for field in each.fields))
    loaded = validate(_raw(_with_places(document)))
    artifacts = frozenset(name for each in chosen for name in each.artifacts)
    return Hybrid(chosen, loaded, _lock(a, b, artifacts, loaded.manifest_id))


def _refuse_unverified(bundle: Bundle) -> None:
    if bundle.document.unverified is not None:
        raise InvalidInputError(
            f"{bundle.reader.describe()} cannot be built again",
            cause=f"its digests were not verified: {bundle.document.unverified.statement}",
            hint="realise its manifest with verified digests: dis realize CONFIG",
        )


def _raw(document: Mapping[str, Any]) -> RawManifest:
    path = Path(HYBRID_NAME)
    file = SourceFile(path, canonical_json.encode(dict(document)))
    return RawManifest(path, (file,), (document,), (), document)


def _with_places(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest as it was used with members that only say where something is."""
    placed = {**document, "artifacts": {"store": {"type": "cas"}}, "outputs": {"directory": "runs"}}
    model, inference = document.get("model"), document.get("inference")
    if isinstance(model, dict):
        placed["model"] = {name: _with_source(group) for name, group in model.items()}
    if isinstance(inference, dict) and isinstance(inference.get("dataset"), dict):
        dataset = {"source": _NOWHERE, **inference["dataset"]}
        placed["inference"] = {**inference, "dataset": dataset}
    return placed


def _with_source(group: Any) -> Any:
    source = group.get("source") if isinstance(group, dict) else None
    if not isinstance(source, dict):
        return group
    place = {"local": {"local_path": _NOWHERE}, "url": {"url": "https://invalid./"}}
    return {**group, "source": {**place.get(str(source.get("type")), {}), **source}}


def _lock(a: Bundle, b: Bundle, from_b: frozenset[str], manifest_id: Sha256) -> Lock:
    entries = [
        *(each for each in _entries(a) if each["name"] not in from_b),
        *(each for each in _entries(b) if each["name"] in from_b),
    ]
    sources = {
        **{name: each for name, each in _sources(a).items() if name not in from_b},
        **{name: each for name, each in _sources(b).items() if name in from_b},
    }
    return Lock(manifest_id, _NO_TIME, tuple(map(_locked_file, entries)), sources)


def _entries(bundle: Bundle) -> list[Mapping[str, Any]]:
    entries = bundle.lock.get("artifacts")
    return [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []


def _sources(bundle: Bundle) -> Mapping[str, Mapping[str, str]]:
    sources = bundle.lock.get("sources")
    return sources if isinstance(sources, dict) else {}


def _locked_file(entry: Mapping[str, Any]) -> LockedFile:
    try:
        return LockedFile(
            name=entry["name"],
            path=entry["path"],
            size=entry["size"],
            digest=Sha256(entry["digest"]),
            executable=bool(entry["executable"]),
            digest_source="published",
            retrieval={},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(
            "a run's lock is malformed", cause=f"an artifact of it: {type(error).__name__}: {error}"
        ) from error
