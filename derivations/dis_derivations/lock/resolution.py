"""Resolving a lock: every artifact of a manifest to the digests of bytes that were read."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from dis_derivations.lock.document import Lock, LockedFile
from dis_derivations.lock.ingestion import GroupPlan, Mismatch, ingest_group, now
from dis_derivations.lock.invented_digests import invented_digests
from dis_derivations.lock.refusals import (
    RefusedItem,
    group_refusals,
    other_refusals,
    refuse,
)
from dis_derivations.lock.staleness import resolved_commits, retrieval_of, stale_artifacts
from dis_derivations.manifest.artifact_groups import ArtifactGroup, DeclaredFile, artifact_groups
from dis_derivations.manifest.loading import LoadedManifest
from dis_derivations.realisation.events import Measure, Reporter
from dis_derivations.realisation.gauge import Gauge, measured
from dis_derivations.realisation.silence import silent
from dis_derivations.sources.registry import open_source
from dis_derivations.sources.source import Source
from dis_store.errors import InvalidInputError, MismatchError

if TYPE_CHECKING:
    from dis_store import Store


def never_interrupted() -> None:
    """Let the work go on."""


def always(_plans: Sequence[GroupPlan]) -> None:
    """Agree to reading anything."""


def resolve_lock(
    loaded: LoadedManifest,
    store: "Store",
    *,
    previous: Lock | None,
    update: Collection[str] = (),
    check_interrupted: Callable[[], None] = never_interrupted,
    before_reading: Callable[[Sequence[GroupPlan]], None] = always,
    reporter: Reporter = silent,
) -> Lock:
    """Return the lock of a manifest; files of local sources are read into the store on the way.

    Args:
        loaded: The manifest.
        store: Gets one object for each artifact that is resolved.
        previous: The lock so far. Artifacts whose source did not change keep their resolution,
            unread.
        update: Names of artifacts to resolve again all the same.
        check_interrupted: Called between files; raises when the user asked to stop.
        before_reading: Told what is going to be read, when nothing of it is refused; may raise to
            prevent it.
        reporter: Told how much was read.

    Returns:
        `previous` itself when nothing in it would change.

    Raises:
        LockRefusedError: Lists every item that cannot be pinned, and why. Nothing was read.
        IntegrityError: Files are not what the manifest declares; nothing of their artifacts was
            kept.
        InvalidInputError: `update` names no artifact.
    """
    groups = artifact_groups(loaded)
    _check_names(update, groups)
    kept = _kept(loaded, groups, previous, update)
    fresh = [group for group in groups if group.name not in kept]
    plans = _plan(loaded, fresh)
    before_reading(plans)
    found: list[LockedFile] = [file for files in kept.values() for file in files]
    with reading(reporter, loaded, plans) as gauge:
        mismatches: list[Mismatch] = []
        for plan in plans:
            locked, wrong = ingest_group(store, plan, check_interrupted, gauge.add)
            found += locked
            mismatches += wrong
        _refuse_mismatches(mismatches)
    lock = Lock(
        manifest_id=loaded.manifest_id,
        generated_at=now(),
        artifacts=tuple(found),
        sources=resolved_commits(loaded),
    )
    if previous is not None and replace(lock, generated_at=previous.generated_at) == previous:
        return previous
    return lock


def reading(
    reporter: Reporter, loaded: LoadedManifest, plans: Sequence[GroupPlan]
) -> AbstractContextManager[Gauge]:
    """Return a gauge of the bytes that plans read, shown while the block runs."""
    files = sum(len(plan.files) for plan in plans)
    noun = "file" if files == 1 else "files"
    return measured(
        reporter if plans else silent,
        str(loaded.path),
        f"reading {files} {noun}",
        Measure("bytes", 0, sum(plan.size for plan in plans)),
        finished=f"read {files} {noun}",
    )


def plan_lock(
    loaded: LoadedManifest, *, previous: Lock | None = None, update: Collection[str] = ()
) -> list[GroupPlan]:
    """Return what `resolve_lock` would read; nothing is read.

    Raises:
        LockRefusedError: Lists every item that cannot be pinned, and why.
        InvalidInputError: `update` names no artifact.
    """
    groups = artifact_groups(loaded)
    _check_names(update, groups)
    kept = _kept(loaded, groups, previous, update)
    return _plan(loaded, [group for group in groups if group.name not in kept])


def _check_names(update: Collection[str], groups: list[ArtifactGroup]) -> None:
    names = [group.name for group in groups]
    for name in update:
        if name not in names:
            raise InvalidInputError(
                f"there is no artifact {name!r} to update",
                cause=f"this manifest has {', '.join(names)}",
            )


def _kept(
    loaded: LoadedManifest,
    groups: list[ArtifactGroup],
    previous: Lock | None,
    update: Collection[str],
) -> dict[str, list[LockedFile]]:
    """Return the artifacts that keep their resolution, with their retrieval brought up to date."""
    if previous is None:
        return {}
    moving = {*stale_artifacts(loaded, previous), *update}
    return {
        group.name: [
            replace(file, retrieval=retrieval_of(group)) for file in previous.files_of(group.name)
        ]
        for group in groups
        if group.name not in moving
    }


def _plan(loaded: LoadedManifest, groups: list[ArtifactGroup]) -> list[GroupPlan]:
    """Return what is to be read, or refuse with all that can be known before it is read."""
    invented = invented_digests(loaded.document)
    plans: list[GroupPlan] = []
    refused: list[RefusedItem] = []
    for group in groups:
        source = open_source(group)
        files = group.files or _look_for(group, source)
        refused += group_refusals(group, source, files, invented)
        if files:
            plans.append(GroupPlan(group, source, files))
    refuse(loaded.path, [*refused, *other_refusals(loaded, invented)])
    return plans


def _look_for(group: ArtifactGroup, source: Source) -> tuple[DeclaredFile, ...]:
    """Return the files of a source that belong to the group; none without the needed one."""
    names = [
        name for name in source.listing() if any(fnmatchcase(name, shape) for shape in group.found)
    ]
    if group.needed is not None and not any(fnmatchcase(name, group.needed) for name in names):
        return ()
    return tuple(
        DeclaredFile(path=name, sha256=None, unset=False, field=group.source.field)
        for name in names
    )


def _refuse_mismatches(mismatches: list[Mismatch]) -> None:
    if not mismatches:
        return
    lines = [
        f"{wrong.name} {wrong.path}: declared {wrong.declared}, found {wrong.found} "
        f"in {wrong.source}"
        for wrong in mismatches
    ]
    count = "1 file is" if len(lines) == 1 else f"{len(lines)} files are"
    raise MismatchError(
        f"{count} not what the manifest declares",
        cause="\n".join(lines),
        hint="bring back the declared files, or declare the digests that were found",
    )
