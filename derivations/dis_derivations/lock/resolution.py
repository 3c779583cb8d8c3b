"""Resolving a lock: every artifact of a manifest to the digests of bytes that were read."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dis_derivations.environments.locking import package_names, plan_packages
from dis_derivations.images.attestations import check_pinned_image
from dis_derivations.images.source import ImageSource
from dis_derivations.lock.document import Lock, LockedFile
from dis_derivations.lock.ingestion import GroupPlan, Mismatch, ingest_group, now
from dis_derivations.lock.planning import LockPlan, plan_groups
from dis_derivations.lock.publishing import is_published, published_group
from dis_derivations.lock.staleness import retrieval_of, stale_artifacts
from dis_derivations.manifest.artifact_groups import ArtifactGroup, artifact_groups
from dis_derivations.manifest.loading import LoadedManifest
from dis_derivations.realisation.events import Event, Measure, Reporter
from dis_derivations.realisation.gauge import Gauge, measured
from dis_derivations.realisation.silence import silent
from dis_derivations.sources.pypi import PypiSource
from dis_derivations.sources.source import Remarking
from dis_store.errors import InvalidInputError, MismatchError

if TYPE_CHECKING:
    from dis_derivations.realisation.target import ImageCheck
    from dis_store import Store


def never_interrupted() -> None:
    """Let the work go on."""


def always(_plans: Sequence[GroupPlan]) -> None:
    """Agree to reading anything."""


@dataclass(frozen=True)
class Gate:
    """What may prevent that something is locked, when nothing of the manifest is refused and nothing was read.

    Attributes:
        before_reading: Told what is going to be read.
        image_check: Refuses an image that nobody vouches for; None where nobody need.
    """

    before_reading: Callable[[Sequence[GroupPlan]], None] = always
    image_check: "ImageCheck | None" = None


OPEN = Gate()


def resolve_lock(
    loaded: LoadedManifest,
    store: "Store",
    *,
    previous: Lock | None,
    update: Collection[str] = (),
    fetch: bool = True,
    check_interrupted: Callable[[], None] = never_interrupted,
    gate: Gate = OPEN,
    reporter: Reporter = silent,
) -> Lock:
    """Return the lock of a manifest; files of local sources are read into the store on the way.

    Args:
        loaded: The manifest.
        store: Gets one object for each artifact that is resolved.
        previous: The lock so far. Artifacts whose source did not change keep their resolution,
            unread.
        update: Names of artifacts to resolve again all the same.
        fetch: Whether the files of a hub and of an index are fetched; else the digests that they publish are taken.
        check_interrupted: Called between files; raises when the user asked to stop.
        gate: What may prevent it before anything is read.
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
    _check_names(update, groups, package_names(loaded, previous))
    kept = _kept(loaded, groups, previous, update)
    fresh = [group for group in groups if group.name not in kept]
    plan = plan_groups(loaded, fresh, store=store)
    pinned = resolved_sources(groups, plan, previous)
    check_pinned_image(gate.image_check, loaded, pinned, reporter)
    packages = plan_packages(loaded, store, previous, update, check_interrupted)
    plans = [*plan.groups, *packages.plans]
    read = [each for each in plans if fetch or not is_published(each)]
    published = [each for each in plans if each not in read]
    gate.before_reading(read)
    found: list[LockedFile] = [file for files in kept.values() for file in files]
    found += [*packages.kept, *_published(published)]
    found += read_groups(store, loaded, read, check_interrupted, reporter)
    lock = Lock(
        manifest_id=loaded.manifest_id,
        generated_at=now(),
        artifacts=tuple(found),
        # Once more: which wheel a package is in is known when it has come.
        sources=resolved_sources(groups, plan, previous),
    )
    if previous is not None and replace(lock, generated_at=previous.generated_at) == previous:
        return previous
    return lock


def read_groups(
    store: "Store",
    loaded: LoadedManifest,
    plans: Sequence[GroupPlan],
    check_interrupted: Callable[[], None] = never_interrupted,
    reporter: Reporter = silent,
) -> list[LockedFile]:
    """Read the files of plans into the store, one object for each artifact, and return them with their digests.

    Raises:
        IntegrityError: Files are not what the manifest declares; nothing of their artifacts was kept.
        BuildError: A file cannot be had.
    """
    found: list[LockedFile] = []
    mismatches: list[Mismatch] = []
    at_hand = [plan for plan in plans if plan.group.source.location is not None]
    # What is fetched takes its time, so that each artifact is told of for itself.
    turns = [(str(loaded.path), at_hand)]
    turns += [(plan.group.name, [plan]) for plan in plans if plan not in at_hand]
    for subject, turn in turns:
        with reading(reporter, subject, turn) as gauge:
            for plan in turn:
                locked, wrong = ingest_group(store, plan, check_interrupted, gauge.add)
                found += locked
                mismatches += wrong
                for remark in plan.source.remarks if isinstance(plan.source, Remarking) else ():
                    reporter(Event("note", plan.group.name, remark))
    _refuse_mismatches(mismatches)
    return found


def reading(
    reporter: Reporter, subject: str, plans: Sequence[GroupPlan]
) -> AbstractContextManager[Gauge]:
    """Return a gauge of the bytes that plans read, shown under the name of `subject` while the block runs."""
    files = sum(len(plan.files) for plan in plans)
    noun = "file" if files == 1 else "files"
    is_sized = all(plan.is_sized for plan in plans)
    return measured(
        reporter if plans else silent,
        subject,
        f"reading {files} {noun}",
        Measure("bytes", 0, sum(plan.size for plan in plans) if is_sized else None),
        finished=f"read {files} {noun}",
    )


def plan_lock(
    loaded: LoadedManifest,
    *,
    previous: Lock | None = None,
    update: Collection[str] = (),
    store: "Store | None" = None,
) -> list[GroupPlan]:
    """Return what `resolve_lock` would read but Python packages; nothing is read.

    Raises:
        LockRefusedError: Lists every item that cannot be pinned, and why.
        InvalidInputError: `update` names no artifact.
    """
    groups = artifact_groups(loaded)
    _check_names(update, groups, package_names(loaded, previous))
    kept = _kept(loaded, groups, previous, update)
    fresh = [group for group in groups if group.name not in kept]
    return list(plan_groups(loaded, fresh, store=store).groups)


def _check_names(
    update: Collection[str], groups: list[ArtifactGroup], packages: Sequence[str]
) -> None:
    names = [*(group.name for group in groups), *packages]
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


def _published(plans: Sequence[GroupPlan]) -> list[LockedFile]:
    found: list[LockedFile] = []
    mismatches: list[Mismatch] = []
    for plan in plans:
        locked, wrong = published_group(plan)
        found += locked
        mismatches += wrong
    _refuse_mismatches(mismatches)
    return found


def resolved_sources(
    groups: list[ArtifactGroup], plan: LockPlan, previous: Lock | None
) -> dict[str, dict[str, str]]:
    """Return commits, wheels and images of all artifacts in the manifest's order: those of now, and those kept."""
    kept = {} if previous is None else previous.sources
    wheels = {
        each.group.name: each.source.wheel.to_lock()
        for each in plan.groups
        if isinstance(each.source, PypiSource) and each.source.wheel is not None
    }
    images = {
        each.group.name: each.source.resolved().to_lock()
        for each in plan.groups
        if isinstance(each.source, ImageSource)
    }
    read = {each.group.name for each in plan.groups}
    found: dict[str, dict[str, str]] = {}
    for group in groups:
        if group.name in plan.commits:
            found[group.name] = {"commit": plan.commits[group.name]}
        elif group.name in wheels:
            found[group.name] = wheels[group.name]
        elif group.name in images:
            found[group.name] = images[group.name]
        elif group.name in kept and (
            group.source.type in ("huggingface", "image", "oci", "store")
            or (group.source.type == "pypi" and group.name not in read)
        ):
            found[group.name] = dict(kept[group.name])
    return found


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
