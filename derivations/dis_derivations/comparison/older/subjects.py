"""What is known of what two runs were made of, subject by subject, where one is of the older tool."""

from collections.abc import Iterator

from dis_derivations.comparison.causes.json_changes import ABSENT, Change, json_changes
from dis_derivations.comparison.older.report import Subject
from dis_derivations.comparison.older.side import Side

# Subject, and the name of the artifacts in the lock; one that ends with a dot begins the names of several.
_FILES = (
    ("weights", "model.weight"),
    ("model configuration", "model.config"),
    ("tokenizer", "model.tokenizer"),
    ("chat template", "model.chat_template"),
    ("code of the model", "model.remote_code"),
    ("prompts", "inference.prompt_dataset"),
    ("Python packages", "python.package."),
    ("CUDA libraries", "cuda.userspace."),
)
_RECORDED = ("environment variables", "software", "hardware", "seeding", "batching")
_NOT_CHECKED = "both declare the same; the older tool did not compare its files with it"
_OF_THE_CLIENT = "both say the same of the client, which did not compute"
_PLANNED = "both planned the same batches; what the engine did was not recorded"


def subjects_of(a: Side, b: Side) -> tuple[Subject, ...]:
    """Return all subjects. B's requests have the ids of A's."""
    return (
        _engine(a, b),
        _model(a, b),
        *(_files(a, b, name, artifact) for name, artifact in _FILES),
        _sampling(a, b),
        *(_recorded(a, b, name) for name in _RECORDED),
    )


def _engine(a: Side, b: Side) -> Subject:
    lacking = _lacking(a.engine is None, b.engine is None)
    account = f"nobody asked the server of {lacking} what it was" if lacking else "both tell of it"
    return Subject("engine", "unknown", account)


def _model(a: Side, b: Side) -> Subject:
    if a.model != b.model:
        return Subject("model", "differ", "", (Change("tokens.json", "/model", a.model, b.model),))
    return Subject("model", "declared alike", "both were asked for the same name")


def _files(a: Side, b: Side, name: str, artifact: str) -> Subject:
    left, right = a.artifacts_of(artifact), b.artifacts_of(artifact)
    if not left or not right:
        lacking = _lacking(not left, not right)
        return Subject(name, "unknown", f"the lock of {lacking} names none")
    changes = tuple(
        Change("file", path, left.get(path, ABSENT), right.get(path, ABSENT))
        for path in sorted({*left, *right})
        if left.get(path) != right.get(path)
    )
    if changes:
        return Subject(name, "differ", "as both locks declare", changes)
    return Subject(name, "declared alike", _NOT_CHECKED)


def _sampling(a: Side, b: Side) -> Subject:
    if a.sampling is None or b.sampling is None:
        lacking = _lacking(a.sampling is None, b.sampling is None)
        return Subject("sampling", "unknown", f"{lacking} kept none")
    changes = tuple(_sampling_changes(a, b))
    if changes:
        return Subject("sampling", "differ", "", changes)
    if not set(a.sampling) & set(b.sampling):
        return Subject("sampling", "unknown", "no request is in both runs")
    return Subject(
        "sampling", "declared alike", "both asked for the same; stop sequences were not sent"
    )


def _sampling_changes(a: Side, b: Side) -> Iterator[Change]:
    for request, old in (a.sampling or {}).items():
        new = (b.sampling or {}).get(request)
        if new is not None:
            # What one run did not name is the default of its engine, which nobody knows.
            common = [name for name in old if name in new]
            yield from json_changes(
                "requests",
                {name: _plain(old[name]) for name in common},
                {name: _plain(new[name]) for name in common},
                f"/{request}/sampling",
            )


def _plain(value: object) -> object:
    """Return a number as JSON compares it: 1 and 1.0 are one."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _recorded(a: Side, b: Side, name: str) -> Subject:
    left, right = a.recorded.get(name), b.recorded.get(name)
    if left is None or right is None:
        older = [label for label, side in (("A", a), ("B", b)) if name in side.recorded]
        account = (
            f"{older[0]} tells only of the client that asked"
            if older
            else "neither run tells of it"
        )
        if name == "batching" and older:
            account = f"{older[0]} tells only what the client planned"
        return Subject(name, "unknown", account)
    changes = json_changes("bundle.json", left, right, f"/{name}")
    if changes:
        return Subject(name, "differ", "as the clients say", changes)
    return Subject(name, "declared alike", _PLANNED if name == "batching" else _OF_THE_CLIENT)


def _lacking(in_a: bool, in_b: bool) -> str:
    return " and ".join(label for label, lacks in (("A", in_a), ("B", in_b)) if lacks)
