"""The files of a lock as they are at their sources now, whatever digests the lock declares of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dis_derivations.environments.locking import locked_packages
from dis_derivations.lock.document import Lock
from dis_derivations.lock.ingestion import GroupPlan, ingest_group
from dis_derivations.lock.refusals import RefusedItem, group_refusals, refuse
from dis_derivations.lock.resolution import always, never_interrupted, reading
from dis_derivations.manifest.artifact_groups import ArtifactGroup, DeclaredFile, artifact_groups
from dis_derivations.manifest.loading import LoadedManifest
from dis_derivations.realisation.events import Reporter
from dis_derivations.realisation.silence import silent
from dis_derivations.sources.hub_repository import Repositories
from dis_derivations.sources.pypi import LockedWheel
from dis_derivations.sources.registry import open_source

if TYPE_CHECKING:
    from dis_store import Store


def read_present(
    loaded: LoadedManifest,
    store: "Store",
    lock: Lock,
    *,
    before_reading: Callable[[Sequence[GroupPlan]], None] = always,
    reporter: Reporter = silent,
) -> Lock:
    """Return a lock of the same files with the sizes and digests that they have now; they come into the store.

    Only digests are not looked at: what is missing, unreadable or unsafe is refused as when a manifest is locked.

    Args:
        loaded: The manifest.
        store: Gets one object for each artifact.
        lock: Names the files. It must fit the manifest.
        before_reading: Told what is going to be read; may raise to prevent it.
        reporter: Told how much was read.

    Raises:
        LockRefusedError: Lists every file that cannot be taken, and why. Nothing was read.
        BuildError: A file cannot be read.
    """
    plans = _plan(loaded, lock, store)
    before_reading(plans)
    # Wheels are unpacked and run, so that they are always held to their digests.
    found = locked_packages(lock)
    with reading(reporter, str(loaded.path), plans) as gauge:
        for plan in plans:
            # Nothing is declared of these files, so none can differ from what is declared.
            locked, _ = ingest_group(store, plan, never_interrupted, gauge.add)
            found += locked
    return replace(lock, artifacts=tuple(found))


def _plan(loaded: LoadedManifest, lock: Lock, store: "Store") -> list[GroupPlan]:
    plans: list[GroupPlan] = []
    refused: list[RefusedItem] = []
    repositories = Repositories()
    for group in artifact_groups(loaded):
        files = _undeclared(group, lock)
        if not files:
            continue
        locked = lock.sources.get(group.name, {})
        source = open_source(
            group,
            commit=locked.get("commit"),
            wheel=LockedWheel.of_lock(locked, verify=False),
            image=locked,
            repositories=repositories,
            store=store,
        )
        refused += group_refusals(group, source, files, invented={})
        plans.append(GroupPlan(group, source, files))
    refuse(loaded.path, refused, verbs=("realised", "read"))
    return plans


def _undeclared(group: ArtifactGroup, lock: Lock) -> tuple[DeclaredFile, ...]:
    """Return the locked files of a group as if nothing were declared of them."""
    fields = {file.path: file.field for file in group.files}
    return tuple(
        DeclaredFile(
            path=file.path,
            sha256=None,
            unset=False,
            field=fields.get(file.path, group.source.field),
        )
        for file in lock.files_of(group.name)
    )
