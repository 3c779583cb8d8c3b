"""Which artifacts of a lock no longer fit a manifest: those whose source changed, and no others."""

from collections.abc import Mapping
from typing import Any

from dis_derivations.environments.request import ALL_PACKAGES, packages_are_stale
from dis_derivations.environments.wheel_names import is_package
from dis_derivations.lock.document import Lock, LockedFile
from dis_derivations.manifest.artifact_groups import ArtifactGroup, artifact_groups
from dis_derivations.manifest.loading import LoadedManifest


def retrieval_of(group: ArtifactGroup) -> dict[str, Any]:
    """Return what a lock notes about where an artifact comes from, as the manifest says it.

    `files` is `listed` where the manifest names the files, and `found` where the directory was
    searched.
    """
    source = group.source
    named = {
        "repository": source.repository,
        "revision": source.revision,
        "url": source.url,
        "path": source.path,
        "local_path": source.local_path,
        "request": source.request,
    }
    present = {key: value for key, value in named.items() if value is not None}
    return {"type": source.type, **present, "files": "listed" if group.files else "found"}


def stale_artifacts(loaded: LoadedManifest, lock: Lock) -> list[str]:
    """Return the names of the artifacts whose source is not the one they were locked from.

    An artifact whose files are all declared with digests is stale only if those or its commit
    changed: where its bytes are is then of no account. One that the lock has and the manifest no
    longer has is stale too.
    """
    groups = artifact_groups(loaded)
    stale = [group.name for group in groups if _is_stale(group, lock)]
    moved = {group.source for group in groups if group.name in stale}
    # A file that was looked for and not there has left no trace in the lock; look again if its
    # source changed.
    stale += [
        group.name
        for group in groups
        if group.name not in stale and not lock.files_of(group.name) and group.source in moved
    ]
    known = {group.name for group in groups}
    packages = [file for file in lock.artifacts if is_package(file.name)]
    gone = sorted({file.name for file in lock.artifacts} - known - {file.name for file in packages})
    if packages_are_stale(loaded, packages):
        gone.append(ALL_PACKAGES)
    return [group.name for group in groups if group.name in stale] + gone


def _is_stale(group: ArtifactGroup, lock: Lock) -> bool:
    locked = lock.files_of(group.name)
    if not locked:
        return bool(group.files) or group.needed is not None
    if not all(_same_source(group, file.retrieval) for file in locked):
        return True
    if group.pinned_by_source:
        return lock.sources.get(group.name, {}).get("digest") != group.source.revision
    return bool(group.files) and not _fits_listing(group, locked)


def _same_source(group: ArtifactGroup, retrieval: Mapping[str, Any]) -> bool:
    expected = retrieval_of(group)
    if group.is_pinned:
        return expected.get("revision") == retrieval.get("revision")
    return expected == retrieval


def _fits_listing(group: ArtifactGroup, locked: tuple[LockedFile, ...]) -> bool:
    digests = {file.path: file.digest for file in locked}
    if set(digests) != {file.path for file in group.files}:
        return False
    return all(file.sha256 is None or file.sha256 == digests[file.path] for file in group.files)
