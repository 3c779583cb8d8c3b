"""What shows that something upstream of two runs is not the same, one kind of cause at a time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dis_derivations.comparison.json_changes import ABSENT, Change, json_changes
from dis_derivations.comparison.manifest_changes import CauseKind, ManifestChange, manifest_changes
from dis_derivations.comparison.request_changes import request_changes
from dis_derivations.comparison.weight_changes import WeightChanges, weight_changes
from dis_derivations.comparison.weights import Weights
from dis_derivations.engines.registry import engine_kind
from dis_derivations.manifest import json_pointer
from dis_derivations.runs.bundle_documents import Bundle
from dis_derivations.runs.bundle_reader import ObjectFiles
from dis_store import strict_json
from dis_store.digest import Digest
from dis_store.errors import IntegrityError, InvalidInputError, UnfitEnvironmentError

CLOSURE_DOCUMENT = "closure.json"
# The parts of a model: an input of the run, and an artifact of the lock.
PARTS: Mapping[CauseKind, str] = {
    "weights": "model.weight",
    "config": "model.config",
    "tokenizer": "model.tokenizer",
    "chat_template": "model.chat_template",
}


@dataclass(frozen=True)
class Runs:
    """Two bundles with what is known beside them.

    Attributes:
        store: Where the objects that they name may be.
        declared: The manifest fields that differ.
        closure_a: A's `closure.json`; None where the store does not have it.
        closure_b: B's.
    """

    a: Bundle
    b: Bundle
    store: ObjectFiles | None
    declared: tuple[ManifestChange, ...]
    closure_a: Mapping[str, Any] | None
    closure_b: Mapping[str, Any] | None

    @classmethod
    def of(cls, a: Bundle, b: Bundle, store: ObjectFiles | None) -> "Runs":
        """Gather what is known of two bundles."""
        return cls(
            a=a,
            b=b,
            store=store,
            declared=manifest_changes(a.manifest, b.manifest),
            closure_a=_closure(a, store),
            closure_b=_closure(b, store),
        )

    def same_input(self, name: str) -> bool:
        """Return whether both runs were made of the same object of a name."""
        return self.a.document.inputs.get(name) == self.b.document.inputs.get(name)

    @cached_property
    def weights(self) -> WeightChanges | None:
        """Which tensors differ; None unless the store has tensors of both runs."""
        a, b = self.a.document.inputs.get("weights"), self.b.document.inputs.get("weights")
        store = self.store
        if store is None or a is None or b is None or not (store.is_valid(a) and store.is_valid(b)):
            return None
        try:
            left, right = Weights.of(store, a), Weights.of(store, b)
        except IntegrityError:
            # Damage of the weights is for `dis store verify`; what was computed with them can be compared all the same.
            return None
        return weight_changes(left, right) if left.tensors and right.tensors else None

    @property
    def same_weights(self) -> bool:
        """Whether both runs are known to have used the same tensors, whatever files they lie in."""
        return self.same_input("weights") or (self.weights is not None and self.weights.same)

    def declared_of(self, kind: str) -> tuple[Change, ...]:
        """Return the manifest fields of a kind that differ."""
        return tuple(each.change for each in self.declared if each.kind == kind)


def _part(kind: CauseKind) -> Callable[[Runs], tuple[Change, ...]]:
    def evidence(runs: Runs) -> tuple[Change, ...]:
        if runs.same_input(kind) or (kind == "weights" and runs.same_weights):
            return ()
        details = (*locked_files(runs, PARTS[kind]), *_contents(runs, kind))
        return details or (object_change(runs, kind),)

    return evidence


def locked_files(runs: Runs, artifact: str) -> tuple[Change, ...]:
    """Return the files of a part of the model that are not the same."""
    left, right = _digests(runs.a, artifact), _digests(runs.b, artifact)
    return tuple(
        Change("file", path, left.get(path, ABSENT), right.get(path, ABSENT))
        for path in sorted({*left, *right})
        if left.get(path) != right.get(path)
    )


def _digests(bundle: Bundle, artifact: str) -> dict[str, str]:
    """Return the digests of the files that were used, by path."""
    unverified = bundle.document.unverified
    if unverified is not None:
        return {path: str(digest) for path, digest in unverified.used_in(artifact).items()}
    entries = bundle.lock.get("artifacts")
    return {
        str(entry.get("path")): str(entry.get("digest"))
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and entry.get("name") == artifact
    }


def _contents(runs: Runs, kind: CauseKind) -> tuple[Change, ...]:
    """Look into the objects of a part, where the store has both."""
    a, b = runs.a.document.inputs.get(kind), runs.b.document.inputs.get(kind)
    store = runs.store
    if store is None or a is None or b is None or not (store.is_valid(a) and store.is_valid(b)):
        return ()
    if kind == "weights":
        return () if runs.weights is None else runs.weights.to_changes()
    if kind != "config":
        return ()
    before = {file.path: file.blake3 for file in store.files(a)}
    return tuple(
        change
        for file in store.files(b)
        if file.path.endswith(".json") and before.get(file.path, file.blake3) != file.blake3
        for change in _fields(store, a, b, file.path)
    )


def _fields(store: ObjectFiles, a: Digest, b: Digest, path: str) -> tuple[Change, ...]:
    """Return the fields that differ between two files of a model; none where they are not strict JSON."""
    try:
        old, new = (strict_json.decode(store.read_bytes(each, path), name=path) for each in (a, b))
    except InvalidInputError:
        return ()
    return json_changes(path, old, new)


def _requests(runs: Runs) -> tuple[Change, ...]:
    if runs.a.document.requests_digest == runs.b.document.requests_digest:
        return ()
    changes = request_changes(runs.a, runs.b, runs.store)
    return changes or runs.declared_of("requests") or (object_change(runs, "requests"),)


def _engine(runs: Runs) -> tuple[Change, ...]:
    reported = json_changes("engine.json", dict(runs.a.engine), dict(runs.b.engine))
    if runs.closure_a is None or runs.closure_b is None:
        return reported
    loaded = json_changes(
        CLOSURE_DOCUMENT, runs.closure_a.get("engine"), runs.closure_b.get("engine"), "/engine"
    )
    return (*reported, *loaded)


def _batching(runs: Runs) -> tuple[Change, ...]:
    counts = any(
        _batching_counts(run.engine_name) or run.has("engine_trace") for run in (runs.a, runs.b)
    )
    return runs.declared_of("batching") if counts else ()


def _batching_counts(engine: str) -> bool:
    """Return whether batch composition can change an engine's bits; of an unknown engine it is assumed."""
    try:
        return engine_kind(engine).batching_counts
    except UnfitEnvironmentError:
        return True


def _software(runs: Runs) -> tuple[Change, ...]:
    if runs.same_input("closure"):
        return ()
    if runs.closure_a is None or runs.closure_b is None:
        return runs.declared_of("software")
    left = {key: value for key, value in runs.closure_a.items() if key != "engine"}
    right = {key: value for key, value in runs.closure_b.items() if key != "engine"}
    return json_changes(CLOSURE_DOCUMENT, left, right)


def _platform(runs: Runs) -> tuple[Change, ...]:
    left, right = (
        {"class": run.document.platform_class, "facts": dict(run.document.platform_facts)}
        for run in (runs.a, runs.b)
    )
    return json_changes("platform", left, right)


def _capture(runs: Runs) -> tuple[Change, ...]:
    statuses = json_changes(
        "bundle.json", dict(runs.a.document.capture), dict(runs.b.document.capture), "/capture"
    )
    settings = (change for change in runs.declared_of("capture") if _concerns(change, runs))
    return statuses or tuple(settings)


def _concerns(change: Change, runs: Runs) -> bool:
    """Tell whether a changed setting is of something that a run captured."""
    _, *observable = json_pointer.tokens(change.name)
    # A manifest may hold no settings at all where they belong.
    return not observable or any(run.has(observable[0]) for run in (runs.a, runs.b))


def object_change(runs: Runs, name: str) -> Change:
    """Return the change of an input when nothing closer is known."""
    left, right = runs.a.document.inputs.get(name), runs.b.document.inputs.get(name)
    return Change(
        "object",
        name,
        ABSENT if left is None else str(left),
        ABSENT if right is None else str(right),
    )


# Each returns what differs in its kind, and nothing where that is the same.
EVIDENCE: Mapping[CauseKind, Callable[[Runs], tuple[Change, ...]]] = {
    "weights": _part("weights"),
    "config": _part("config"),
    "tokenizer": _part("tokenizer"),
    "chat_template": _part("chat_template"),
    "requests": _requests,
    "engine": _engine,
    "batching": _batching,
    "software": _software,
    "closure": lambda _: (),
    "platform": _platform,
    "capture": _capture,
}


def _closure(bundle: Bundle, store: ObjectFiles | None) -> Mapping[str, Any] | None:
    """Return a run's `closure.json`; None where the store does not have it."""
    digest = bundle.document.inputs.get("closure")
    if store is None or digest is None or not store.is_valid(digest):
        return None
    document = strict_json.decode(store.read_bytes(digest, CLOSURE_DOCUMENT), name=CLOSURE_DOCUMENT)
    return document if isinstance(document, dict) else None
