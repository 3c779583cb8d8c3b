"""What can be taken from one of two runs or from the other: the differences between their manifests and locks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.comparison.causes.json_changes import ABSENT, Change, changed, same_value
from dis_derivations.comparison.causes.manifest_changes import CAUSE_KINDS, kind_of
from dis_derivations.graph.compilation import FIXED_OUTPUTS
from dis_derivations.manifest import json_pointer
from dis_derivations.runs.bundle_documents import Bundle

_LABELS: Mapping[str, str] = {artifact: label for label, artifact in FIXED_OUTPUTS.items()}
# The blocks of a manifest that speak of the files of an artifact, and change with them.
_BLOCKS: Mapping[str, str] = {
    "/model/weights": "weights",
    "/model/adapters": "weights",
    "/model/tokenizer": "tokenizer",
    "/model/config": "config",
    "/model/chat_template": "chat_template",
    "/inference/dataset": "dataset",
}


@dataclass(frozen=True)
class FieldChange:
    """A manifest field that is not the same; `ABSENT` is the value of one that is not there."""

    pointer: str
    a: Any
    b: Any


@dataclass(frozen=True)
class Difference:
    """One thing in which two runs differ, taken as a whole from A or from B.

    Attributes:
        name: What tables call it: `weights`, `tokenizer`, or the JSON Pointer of a manifest field.
        kind: The kind of cause that it is (docs/guides/comparing-runs.md).
        artifacts: The artifacts of the lock whose files change with it.
        fields: The manifest fields that change with it.
    """

    name: str
    kind: str
    artifacts: tuple[str, ...] = ()
    fields: tuple[FieldChange, ...] = ()

    def changes(self, a: Bundle, b: Bundle) -> tuple[Change, ...]:
        """Return old and new of everything in it."""
        files = [
            Change("file", path, left.get(path, ABSENT), right.get(path, ABSENT))
            for artifact in self.artifacts
            for left, right in [(locked_files(a, artifact), locked_files(b, artifact))]
            for path in sorted({*left, *right})
            if left.get(path) != right.get(path)
        ]
        fields = [changed("manifest", each.pointer, each.a, each.b) for each in self.fields]
        return (*files, *fields)


def differences(a: Bundle, b: Bundle) -> tuple[Difference, ...]:
    """Return everything in which the manifests and locks of two runs differ, and that can change bits.

    What is most likely to change bits comes first. Descriptions, sources and policies are left out.
    """
    fields = [
        each for each in _field_changes(a.manifest, b.manifest, "") if _kind(each) is not None
    ]
    found: list[Difference] = []
    for artifact in _changed_artifacts(a, b):
        label = _LABELS.get(artifact, artifact)
        of_it = tuple(each for each in fields if _block(each.pointer) == label)
        kind = label if label in CAUSE_KINDS else "requests" if label == "dataset" else "software"
        found.append(Difference(label, kind, (artifact,), of_it))
    taken = {each.pointer for difference in found for each in difference.fields}
    found += [
        Difference(each.pointer, str(_kind(each)), fields=(each,))
        for each in fields
        if each.pointer not in taken and _block(each.pointer) is None
    ]
    order = {kind: place for place, kind in enumerate(CAUSE_KINDS)}
    return tuple(sorted(found, key=lambda each: order.get(each.kind, len(order))))  # type: ignore[call-overload]


def with_fields(document: Mapping[str, Any], fields: tuple[FieldChange, ...]) -> Mapping[str, Any]:
    """Return a document with B's values of some fields."""
    changed_document: Any = dict(document)
    for field in fields:
        changed_document = _set(changed_document, json_pointer.tokens(field.pointer), field.b)
    result: Mapping[str, Any] = changed_document
    return result


def _set(value: Any, tokens: list[str], new: Any) -> Any:
    if not tokens:
        return new
    first, *rest = tokens
    if isinstance(value, list):
        place = int(first)
        return [_set(item, rest, new) if at == place else item for at, item in enumerate(value)]
    members = dict(value) if isinstance(value, dict) else {}
    if not rest and new is ABSENT:
        members.pop(first, None)
        return members
    return {**members, first: _set(members.get(first), rest, new)}


def _field_changes(old: Any, new: Any, pointer: str) -> Iterator[FieldChange]:
    """Yield the smallest members that can be exchanged one by one; what only one side has is exchanged whole."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            child = json_pointer.child(pointer, key)
            yield from _field_changes(old.get(key, ABSENT), new.get(key, ABSENT), child)
    elif _are_alike(old, new):
        for place, (left, right) in enumerate(zip(old, new, strict=True)):
            yield from _field_changes(left, right, json_pointer.child(pointer, place))
    elif ABSENT in (old, new) or not same_value(old, new):
        yield FieldChange(pointer, old, new)


def _are_alike(old: Any, new: Any) -> bool:
    """Whether two values are lists of equally many objects."""
    return (
        isinstance(old, list)
        and isinstance(new, list)
        and len(old) == len(new)
        and all(isinstance(item, dict) for item in (*old, *new))
    )


def _kind(field: FieldChange) -> str | None:
    kind = kind_of(field.pointer)
    return kind if kind in CAUSE_KINDS else None


def _block(pointer: str) -> str | None:
    return next(
        (label for block, label in _BLOCKS.items() if f"{pointer}/".startswith(f"{block}/")), None
    )


def _changed_artifacts(a: Bundle, b: Bundle) -> list[str]:
    names = {
        str(entry["name"]) for bundle in (a, b) for entry in _entries(bundle) if "name" in entry
    }
    return sorted(name for name in names if locked_files(a, name) != locked_files(b, name))


def locked_files(bundle: Bundle, artifact: str) -> dict[str, str]:
    """Return the digests of an artifact's files in the lock of a run, by path."""
    return {
        str(entry.get("path")): str(entry.get("digest"))
        for entry in locked_entries(bundle, artifact)
    }


def locked_entries(bundle: Bundle, artifact: str) -> list[dict[str, Any]]:
    """Return what the lock of a run says of the files of an artifact."""
    return [entry for entry in _entries(bundle) if entry.get("name") == artifact]


def _entries(bundle: Bundle) -> list[dict[str, Any]]:
    entries = bundle.lock.get("artifacts")
    listed = entries if isinstance(entries, list) else []
    return [entry for entry in listed if isinstance(entry, dict)]
