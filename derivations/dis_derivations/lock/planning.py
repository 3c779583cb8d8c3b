"""What a lock is going to read: for each artifact its source, at one commit, and the files that are taken from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from dis_derivations.lock.ingestion import GroupPlan
from dis_derivations.lock.invented_digests import invented_digests
from dis_derivations.lock.refusals import RefusedItem, group_refusals, other_refusals, refuse
from dis_derivations.manifest.artifact_groups import IMAGE, ArtifactGroup, DeclaredFile
from dis_derivations.manifest.loading import LoadedManifest
from dis_derivations.manifest.text_forms import is_commit
from dis_derivations.sources.hub_repository import Repositories
from dis_derivations.sources.registry import open_source
from dis_derivations.sources.source import Resolving, Source
from dis_store.digest import Sha256

if TYPE_CHECKING:
    from dis_store.reading import StoreReader


@dataclass(frozen=True)
class LockPlan:
    """What is to be read, when nothing of it is refused.

    Attributes:
        groups: The artifacts that have files.
        commits: For each artifact from a repository, also one without files, its commit.
    """

    groups: tuple[GroupPlan, ...]
    commits: Mapping[str, str]


def plan_groups(
    loaded: LoadedManifest,
    groups: Sequence[ArtifactGroup],
    invented: Mapping[str, Sha256] | None = None,
    store: "StoreReader | None" = None,
) -> LockPlan:
    """Return what is to be read of these artifacts; nothing is read but what a hub says of its files.

    Args:
        loaded: The manifest.
        groups: The artifacts.
        invented: Digests that are none, by their fields; without it, those that are recognised.
        store: The store that is worked in.

    Raises:
        LockRefusedError: Lists every item that cannot be pinned, and why.
    """
    invented = invented_digests(loaded.document) if invented is None else invented
    repositories = Repositories()
    plans: list[GroupPlan] = []
    refused: list[RefusedItem] = []
    sources: dict[str, Source] = {}
    others = list(other_refusals(loaded, invented))
    for group in groups:
        if _is_asked_in_vain(group, [*refused, *others]):
            continue
        source = sources[group.name] = open_source(group, repositories=repositories, store=store)
        files = group.files or look_for(group, source)
        refused += group_refusals(group, source, files, invented)
        if files:
            plans.append(GroupPlan(group, source, files))
    refuse(loaded.path, [*refused, *others])
    commits = {
        group.name: commit
        for group in groups
        if (commit := _commit(group, sources[group.name])) is not None
    }
    return LockPlan(tuple(plans), commits)


def _is_asked_in_vain(group: ArtifactGroup, refused: Sequence[RefusedItem]) -> bool:
    """Tell whether the registry of an image need not be asked, because the manifest cannot be locked anyway."""
    return group.name == IMAGE and group.source.location is None and bool(refused)


def look_for(group: ArtifactGroup, source: Source) -> tuple[DeclaredFile, ...]:
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


def _commit(group: ArtifactGroup, source: Source) -> str | None:
    if isinstance(source, Resolving):
        return source.commit()
    named = group.source
    is_pinned = named.type == "huggingface" and is_commit(named.revision)
    return named.revision if is_pinned else None
