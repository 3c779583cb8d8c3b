"""Comparing two manifests, or two locks, from their files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dis_derivations.comparison.causes.json_changes import ABSENT, Change, json_changes
from dis_derivations.comparison.causes.manifest_changes import (
    CAUSE_KINDS,
    ManifestChange,
    manifest_changes,
)
from dis_derivations.comparison.documents.report import ChangeGroup, DocumentsReport
from dis_derivations.lock.document import Lock


def diff_manifests(a: Path, b: Path) -> DocumentsReport:
    """Compare two manifests with their bases merged, field by field.

    Raises:
        InvalidInputError: One is no valid manifest.
    """
    from dis_derivations.manifest.loading import load_manifest

    left, right = load_manifest(a), load_manifest(b)
    changes = manifest_changes(left.used, right.used)
    places = _places(left.document, right.document)
    return DocumentsReport(
        subject="manifests",
        a=str(left.manifest_id),
        b=str(right.manifest_id),
        identical=left.manifest_id == right.manifest_id,
        groups=(*_groups(changes), *places),
    )


def diff_locks(a: Path, b: Path) -> DocumentsReport:
    """Compare two locks, artifact by artifact and file by file.

    Raises:
        InvalidInputError: One is no lock of this version.
        IntegrityError: One was changed after it was made.
    """
    left, right = (Lock.decode(path.read_bytes(), name=path.name) for path in (a, b))
    names = sorted({file.name for lock in (left, right) for file in lock.artifacts})
    groups = [ChangeGroup(name, matters=True, changes=_files(left, right, name)) for name in names]
    sources = json_changes("lock", dict(left.sources), dict(right.sources), "/sources")
    groups.append(ChangeGroup("sources", matters=False, changes=sources))
    return DocumentsReport(
        subject="locks",
        a=str(left.lock_id),
        b=str(right.lock_id),
        identical=left.lock_id == right.lock_id,
        groups=tuple(group for group in groups if group.changes),
    )


def _groups(changes: Sequence[ManifestChange]) -> tuple[ChangeGroup, ...]:
    """Return the changes by what they are about: first causes, from most to least likely to change bits."""
    kinds = [*CAUSE_KINDS, *sorted({str(each.kind) for each in changes} - set(CAUSE_KINDS))]
    found = {kind: tuple(each.change for each in changes if each.kind == kind) for kind in kinds}
    return tuple(
        ChangeGroup(kind, kind in CAUSE_KINDS, found[kind]) for kind in kinds if found[kind]
    )


def _places(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[ChangeGroup, ...]:
    """Return what only says where something is, which no identity has."""
    changes = tuple(
        change
        for name in ("artifacts", "outputs")
        for change in json_changes("manifest", a.get(name), b.get(name), f"/{name}")
    )
    return (ChangeGroup("places", matters=False, changes=changes),) if changes else ()


def _files(a: Lock, b: Lock, name: str) -> tuple[Change, ...]:
    left = {file.path: str(file.digest) for file in a.files_of(name)}
    right = {file.path: str(file.digest) for file in b.files_of(name)}
    return tuple(
        Change("file", path, left.get(path, ABSENT), right.get(path, ABSENT))
        for path in sorted({*left, *right})
        if left.get(path) != right.get(path)
    )
