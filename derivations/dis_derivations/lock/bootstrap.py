"""Filling the digests of a manifest from bytes that were read, and from nothing else."""

import copy
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dis_derivations.images.source import ImageSource
from dis_derivations.lock.document import Lock, LockedFile
from dis_derivations.lock.ingestion import now
from dis_derivations.lock.invented_digests import invented_digests
from dis_derivations.lock.location import LockLocation
from dis_derivations.lock.planning import LockPlan, plan_groups
from dis_derivations.lock.resolution import read_groups, resolved_sources
from dis_derivations.lock.staleness import retrieval_of
from dis_derivations.manifest import json_pointer
from dis_derivations.manifest.artifact_groups import (
    CHAT_TEMPLATE,
    DATASET,
    IMAGE,
    ArtifactGroup,
    DeclaredFile,
    artifact_groups,
)
from dis_derivations.manifest.loading import LoadedManifest, load_manifest
from dis_derivations.realisation.events import Reporter
from dis_derivations.realisation.silence import silent
from dis_derivations.runs.output_file import write_file
from dis_store import strict_json

if TYPE_CHECKING:
    from dis_store import Store

# Fields with a path that begins at the file that holds them.
_PATHS = (
    "/x_base_manifest",
    *(f"/model/{block}/source/local_path" for block in ("weights", "tokenizer", "config")),
    "/model/chat_template/source/local_path",
    "/inference/dataset/source",
    "/inference/dataset/source/local_path",
    "/runtime/execution/vllm_image_path",
)


@dataclass(frozen=True)
class FilledDigest:
    """A digest that a manifest did not have, or had otherwise.

    Attributes:
        before: What it had; None where it had none.
    """

    name: str
    path: str
    digest: str
    before: str | None


@dataclass(frozen=True)
class Bootstrapped:
    """A manifest whose files all have digests.

    Attributes:
        filled: What was filled in or replaced.
        files: All its files as they were read.
        lock: Where its lock was written; None where none was asked for.
    """

    path: Path
    filled: tuple[FilledDigest, ...]
    files: tuple[LockedFile, ...]
    lock: Path | None


def bootstrap_digests(
    store: "Store",
    loaded: LoadedManifest,
    target: Path,
    *,
    replace_file: bool,
    replace_existing: bool = False,
    write_lock: bool = False,
    reporter: Reporter = silent,
) -> Bootstrapped:
    """Read every file of a manifest and write the manifest with their digests.

    A file that is declared with a digest must have it. Where the manifest lists no files, those that are found are
    listed. A list that a base has is written out in full.

    Args:
        store: Gets the files, as when the manifest is locked.
        loaded: The manifest, without overrides.
        target: The file to write.
        replace_file: Whether it may be there already.
        replace_existing: Whether digests that are declared are replaced by those that are found.
        write_lock: Whether the lock is written as well.
        reporter: Told how much was read.

    Raises:
        LockRefusedError: Lists every item that has no digest and cannot get one. Nothing was written.
        MismatchError: A file does not have its declared digest. Nothing was written.
        OutputExistsError: The target is there.
    """
    groups = [_relaxed(group, replace_existing) for group in artifact_groups(loaded)]
    fields = {file.field for group in groups for file in group.files}
    invented = {
        field: digest
        for field, digest in invented_digests(loaded.document).items()
        if not (replace_existing and field in fields)
    }
    plan = plan_groups(loaded, groups, invented, store)
    files = read_groups(store, loaded, plan.groups, reporter=reporter)
    digests = {(file.name, file.path): str(file.digest) for file in files}
    document = _moved(loaded, target)
    filled = (*_fill(document, loaded, digests), *_pin_image(document, plan))
    write_file(target, _encoded(document), replace=replace_file)
    location = (
        _write_lock(target, files, resolved_sources(groups, plan, None)) if write_lock else None
    )
    return Bootstrapped(target, filled, tuple(files), location)


def _relaxed(group: ArtifactGroup, replace_existing: bool) -> ArtifactGroup:
    """Return a group whose missing digests are not asked for, and with `replace_existing` none at all."""

    def file(declared: DeclaredFile) -> DeclaredFile:
        kept = None if replace_existing else declared.sha256
        return replace(declared, sha256=kept, unset=False)

    return replace(group, files=tuple(map(file, group.files)))


def _moved(loaded: LoadedManifest, target: Path) -> dict[str, Any]:
    """Return the manifest's own document, with its relative paths written as they are from the target's directory."""
    first = loaded.files[0]
    document: dict[str, Any] = strict_json.decode(first.data, name=str(first.path))
    here, there = (Path(os.path.realpath(path)).parent for path in (first.path, target))
    for pointer in _PATHS:
        value = json_pointer.get(document, pointer)
        if here != there and isinstance(value, str) and not value.startswith(("/", "~")):
            _put(document, pointer, os.path.relpath(here / value, there))
    return document


def _fill(
    document: dict[str, Any], loaded: LoadedManifest, digests: Mapping[tuple[str, str], str]
) -> Iterator[FilledDigest]:
    """Write digests into a document; yield those that are new."""
    for group in artifact_groups(loaded):
        if group.name == IMAGE:
            continue
        found = {path: digest for (name, path), digest in digests.items() if name == group.name}
        declared = {file.path: file for file in group.files}
        for path, digest in found.items():
            before = _written(loaded, declared.get(path))
            if before is None or before.removeprefix("sha256:").lower() != digest[7:]:
                yield FilledDigest(group.name, path, digest, before)
        if found:
            _put_digests(document, loaded, group, found)


def _pin_image(document: dict[str, Any], plan: LockPlan) -> Iterator[FilledDigest]:
    """Put the digest of an image in the place of its tag; yield that."""
    for each in plan.groups:
        if isinstance(each.source, ImageSource) and not each.group.pinned_by_source:
            name, digest = each.group.source.repository or "", str(each.source.resolved().root)
            _put(document, each.group.source.field, f"{name}@{digest}")
            yield FilledDigest(IMAGE, name, digest, each.group.source.revision)


def _written(loaded: LoadedManifest, file: DeclaredFile | None) -> str | None:
    value = None if file is None else json_pointer.get(loaded.document, file.field)
    return value if isinstance(value, str) else None


def _put_digests(
    document: dict[str, Any],
    loaded: LoadedManifest,
    group: ArtifactGroup,
    found: Mapping[str, str],
) -> None:
    if group.name == DATASET:
        _put(document, "/inference/dataset/digest", next(iter(found.values())))
        return
    if group.name == CHAT_TEMPLATE:
        ((path, digest),) = found.items()
        _put(document, "/model/chat_template/file/path", path)
        _put(document, "/model/chat_template/file/digest", digest)
        return
    # A list replaces that of a base, so it is written whole, with whatever else its entries have.
    pointer = f"/model/{group.label}/files"
    entries: Sequence[Any] = json_pointer.get(loaded.document, pointer) or []
    entries = copy.deepcopy(entries) or [{"path": path} for path in found]
    for entry in entries:
        entry["digest"] = found[entry["path"]]
    _put(document, pointer, entries)


def _put(document: dict[str, Any], pointer: str, value: Any) -> None:
    """Set a member; objects on the way are made."""
    *way, last = json_pointer.tokens(pointer)
    container = document
    for token in way:
        if not isinstance(container.get(token), dict):
            container[token] = {}
        container = container[token]
    container[last] = value


def _encoded(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def _write_lock(
    target: Path, files: Sequence[LockedFile], sources: Mapping[str, Mapping[str, str]]
) -> Path:
    """Lock the manifest as it is now with what was read for it."""
    loaded = load_manifest(target)
    retrieval = {group.name: retrieval_of(group) for group in artifact_groups(loaded)}
    lock = Lock(
        manifest_id=loaded.manifest_id,
        generated_at=now(),
        artifacts=tuple(replace(file, retrieval=retrieval[file.name]) for file in files),
        sources=sources,
    )
    return LockLocation.of(loaded.raw).write(lock.encode())
