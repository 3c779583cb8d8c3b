"""What shows that something upstream of two runs is not the same, one kind of cause at a time."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from dis_derivations.comparison.causes.compared_runs import CLOSURE_DOCUMENT, Runs
from dis_derivations.comparison.causes.json_changes import ABSENT, Change, json_changes, keyed
from dis_derivations.comparison.causes.manifest_changes import (
    CauseKind,
)
from dis_derivations.manifest import json_pointer
from dis_derivations.runs.bundle_documents import Bundle
from dis_derivations.runs.bundle_reader import ObjectFiles
from dis_store import strict_json
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError, UnfitEnvironmentError

if TYPE_CHECKING:
    from dis_derivations.comparison.causes.text_changes import TextDiff

# The parts of a model: an input of the run, and an artifact of the lock.
PARTS: Mapping[CauseKind, str] = {
    "weights": "model.weight",
    "config": "model.config",
    "tokenizer": "model.tokenizer",
    "chat_template": "model.chat_template",
}
_KNOWN_INPUTS = frozenset({*PARTS, "requests", "dataset", "closure", "conversion"})


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
    if kind == "chat_template":
        return ()  # shown as a difference of texts
    return tuple(_document_changes(store, a, b))


def _document_changes(store: ObjectFiles, a: Digest, b: Digest) -> Iterator[Change]:
    """Yield the fields that differ in documents of one path in two objects."""
    before = {file.path: file.blake3 for file in store.files(a)}
    for file in store.files(b):
        if file.path.endswith(".json") and before.get(file.path, file.blake3) != file.blake3:
            yield from _fields(store, a, b, file.path)


def _fields(store: ObjectFiles, a: Digest, b: Digest, path: str) -> tuple[Change, ...]:
    """Return the fields that differ between two files of a model; none where they are not strict JSON."""
    try:
        old, new = (strict_json.decode(store.read_bytes(each, path), name=path) for each in (a, b))
    except InvalidInputError:
        return ()
    from dis_derivations.comparison.causes.tokenizer_changes import (
        TOKENIZER_FILE,
        tokenizer_changes,
    )

    if path.rpartition("/")[2] == TOKENIZER_FILE:
        return tokenizer_changes(old, new)
    return json_changes(path, keyed(old), keyed(new))


def _requests(runs: Runs) -> tuple[Change, ...]:
    if runs.same_requests:
        return ()
    from dis_derivations.comparison.causes.request_changes import request_changes

    changes = request_changes(runs.a, runs.b, runs.store)
    return changes or runs.declared_of("requests") or (object_change(runs, "requests"),)


def _engine(runs: Runs) -> tuple[Change, ...]:
    left, right = (
        {name: value for name, value in run.engine.items() if name != "batching"}
        for run in (runs.a, runs.b)
    )
    reported = json_changes("engine.json", left, right)
    if runs.closure_a is None or runs.closure_b is None:
        return reported
    loaded = json_changes(
        CLOSURE_DOCUMENT, runs.closure_a.get("engine"), runs.closure_b.get("engine"), "/engine"
    )
    return (*reported, *loaded)


def _batching(runs: Runs) -> tuple[Change, ...]:
    reported = json_changes(
        "engine.json",
        runs.a.engine.get("batching", {}),
        runs.b.engine.get("batching", {}),
        "/batching",
    )
    changes = (*reported, *runs.declared_of("batching"))
    counts = changes and any(
        _batching_counts(run.engine_name) or run.captured("engine_trace")
        for run in (runs.a, runs.b)
    )
    return changes if counts else ()


def _batching_counts(engine: str) -> bool:
    """Return whether batch composition can change an engine's bits; of an unknown engine it is assumed."""
    from dis_derivations.engines.registry import engine_kind

    try:
        return engine_kind(engine).batching_counts
    except UnfitEnvironmentError:
        return True


def _software(runs: Runs) -> tuple[Change, ...]:
    others = tuple(change for name in _other_inputs(runs) for change in _other_input(runs, name))
    if runs.same_input("closure"):
        return others
    return (*others, *_closure_software(runs))


def _other_inputs(runs: Runs) -> list[str]:
    """Return the inputs, such as an environment or an image, that no other kind of cause is about."""
    names = {*runs.a.document.inputs, *runs.b.document.inputs}
    return sorted(name for name in names - _KNOWN_INPUTS if not runs.same_input(name))


def _other_input(runs: Runs, name: str) -> tuple[Change, ...]:
    """Return what differs in an environment or an image: packages and layers, as its documents list them."""
    a, b, store = runs.a.document.inputs.get(name), runs.b.document.inputs.get(name), runs.store
    if store is None or a is None or b is None or not (store.is_valid(a) and store.is_valid(b)):
        return (object_change(runs, name),)
    if name == "image":
        found = () if runs.image is None else runs.image.fields
    else:
        found = tuple(_document_changes(store, a, b))
    return found or (object_change(runs, name),)


def _closure_software(runs: Runs) -> tuple[Change, ...]:
    if runs.closure_a is None or runs.closure_b is None:
        return runs.declared_of("software")
    left = {key: value for key, value in runs.closure_a.items() if key != "engine"}
    right = {key: value for key, value in runs.closure_b.items() if key != "engine"}
    return json_changes(CLOSURE_DOCUMENT, keyed(left), keyed(right))


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
    return not observable or any(run.captured(observable[0]) for run in (runs.a, runs.b))


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


def template_diff(runs: Runs) -> "TextDiff | None":
    """Return how the chat templates differ as texts; None where they are the same or not at hand."""
    if runs.same_input("chat_template"):
        return None
    from dis_derivations.comparison.causes.text_changes import text_diff

    texts = [_template(run, runs.store) for run in (runs.a, runs.b)]
    old, new = texts
    if old is None or new is None or old == new:
        return None
    return text_diff("the chat template", old, new)


def rendered_diff(runs: Runs) -> "TextDiff | None":
    """Return how the first rendered prompt that differs does; None where none does or none is at hand."""
    if runs.same_requests:
        return None
    from dis_derivations.comparison.causes.request_changes import prompt_diff

    return prompt_diff(runs.a, runs.b, runs.store)


def _template(bundle: Bundle, store: ObjectFiles | None) -> str | None:
    digest = bundle.document.inputs.get("chat_template")
    if store is None or digest is None or not store.is_valid(digest):
        return None
    files = [file for file in store.files(digest) if file.path.endswith(".jinja")]
    if not files:
        return None
    return store.read_bytes(digest, files[0].path).decode("utf-8", "replace")
