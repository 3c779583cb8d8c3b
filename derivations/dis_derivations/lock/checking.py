"""Whether the names of a manifest lead today where they led when it was locked. Nothing is changed."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dis_derivations.environments.checking import package_changes
from dis_derivations.environments.locking import locked_packages
from dis_derivations.environments.request import ALL_PACKAGES
from dis_derivations.images.source import ImageSource
from dis_derivations.lock.document import Lock, LockedFile
from dis_derivations.lock.planning import look_for
from dis_derivations.lock.staleness import stale_artifacts
from dis_derivations.manifest.artifact_groups import ArtifactGroup, artifact_groups
from dis_derivations.manifest.loading import LoadedManifest
from dis_derivations.sources.hub_repository import Repositories
from dis_derivations.sources.hugging_face import HuggingFaceSource
from dis_derivations.sources.oci_artifact import OciArtifact
from dis_derivations.sources.registry import open_source
from dis_derivations.sources.source import Located, Resolving, Source, WantedFile
from dis_store.digest import Sha256
from dis_store.errors import DisError

if TYPE_CHECKING:
    from dis_store import Store

Kind = Literal["source", "commit", "added", "removed", "digest", "unchecked"]


@dataclass(frozen=True)
class Finding:
    """Something that is not as it was locked, or of which that is not known.

    Attributes:
        name: The artifact.
        path: The file; empty for what is said of all its files.
        kind: A word for programs: `source`, the manifest names another one; `commit`, the revision names another one;
            `added`, `removed`, `digest`, a file; `unchecked`, it could not be looked at.
        message: The same in a sentence.
    """

    name: str
    path: str
    kind: Kind
    message: str


@dataclass(frozen=True)
class LockCheck:
    """What a look at all sources found.

    Attributes:
        findings: Everything that is not as it was locked, or could not be looked at.
        artifacts: How many artifacts there are.
    """

    findings: tuple[Finding, ...]
    artifacts: int

    @property
    def differing(self) -> tuple[str, ...]:
        """The artifacts that would be resolved otherwise today."""
        names = (found.name for found in self.findings if found.kind != "unchecked")
        return tuple(dict.fromkeys(names))

    @property
    def unchecked(self) -> tuple[Finding, ...]:
        """What could not be looked at."""
        return tuple(found for found in self.findings if found.kind == "unchecked")


def check_lock(loaded: LoadedManifest, lock: Lock, store: "Store") -> LockCheck:
    """Compare a lock with what its names lead to now.

    Files on this machine are read. Of a hub its own list is asked, and no file. From anywhere else files are fetched
    into the store's room for unfinished things, and forgotten.

    Args:
        loaded: The manifest.
        lock: Its lock.
        store: Where fetched bytes are while they are looked at.
    """
    stale, repositories = stale_artifacts(loaded, lock), Repositories()
    groups = artifact_groups(loaded)
    findings = [
        Finding(name, "", "source", "the manifest names another source or other files, or none")
        for name in stale
    ]
    for group in groups:
        if group.name not in stale:
            findings += _Look(group, lock, store, repositories).findings()
    if ALL_PACKAGES not in stale:
        findings += [
            Finding(each.name, each.path, each.kind, each.message)
            for each in package_changes(loaded, lock, store)
        ]
    return LockCheck(tuple(findings), len(groups) + len(locked_packages(lock)))


class _Look:
    """A look at the source of one artifact."""

    def __init__(
        self, group: ArtifactGroup, lock: Lock, store: "Store", repositories: Repositories
    ) -> None:
        self._group = group
        self._locked = {file.path: file for file in lock.files_of(group.name)}
        self._sources = lock.sources.get(group.name, {})
        self._commit = self._sources.get("commit")
        self._store = store
        self._repositories = repositories

    def findings(self) -> Iterator[Finding]:
        """Yield what differs, or why that is not known."""
        try:
            # All of it before anything is told: half a look would pass for a whole one.
            yield from list(
                self._compare(
                    open_source(self._group, repositories=self._repositories, store=self._store)
                )
            )
        except DisError as error:
            yield self._finding("", "unchecked", str(error))

    def _compare(self, source: Source) -> Iterator[Finding]:
        if (unavailable := source.available()) is not None:
            yield self._finding("", "unchecked", unavailable.reason)
            return
        if isinstance(source, ImageSource):
            yield from self._compare_images(source)
            return
        if isinstance(source, Resolving):
            yield from self._compare_commits(source)
        present = {file.path for file in self._group.files or look_for(self._group, source)}
        for path in sorted(present - set(self._locked)):
            yield self._finding(path, "added", "it is there now, and is not locked")
        for path, locked in self._locked.items():
            problem = source.problem(path)
            if path not in present or problem is not None:
                message = "it is not there any more" if problem is None else problem.message
                yield self._finding(path, "removed", message)
            else:
                yield from self._compare_file(source, locked)

    def _compare_images(self, source: ImageSource) -> Iterator[Finding]:
        today = source.resolved().to_lock()
        for field in ("digest", "manifest"):
            if (was := self._sources.get(field)) != today[field]:
                message = f"{source.describe()} is {today[field]} now, and {was} is locked"
                yield self._finding("", "digest", message)
                return

    def _compare_commits(self, source: Resolving) -> Iterator[Finding]:
        today = source.commit()
        revision = self._group.source.revision or self._group.source.repository
        if self._commit != today:
            message = f"{revision!r} is {today} now, and was {self._commit} when it was locked"
            yield self._finding("", "commit", message)

    def _compare_file(self, source: Source, locked: LockedFile) -> Iterator[Finding]:
        found: str | None
        if isinstance(source, HuggingFaceSource):
            found = self._published(source, locked)
        elif isinstance(source, OciArtifact):
            found = source.published(locked.path).sha256
        elif isinstance(source, Located):
            with source.locate(locked.path).open("rb") as file:
                found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        else:
            found = self._fetched(source, locked.path)
        if found is not None and found != locked.digest:
            message = f"it is {found} now, and {locked.digest} is locked"
            yield self._finding(locked.path, "digest", message)

    def _published(self, source: HuggingFaceSource, locked: LockedFile) -> str | None:
        """Return the digest that a hub says a file has; for one without a digest there, None while it is the same."""
        today = source.published(locked.path)
        if today.sha256 is not None:
            return today.sha256
        if today.size != locked.size:
            return f"a file of {today.size} bytes"
        if self._commit in (None, source.commit()):
            return None
        # Git names files by their content, so the list of the locked commit says which file it was.
        before = self._repositories.open(self._group.source.repository or "", str(self._commit))
        was = before.files.get(locked.path)
        return (
            None
            if was is not None and was.blob_id == today.blob_id
            else f"git blob {today.blob_id}"
        )

    def _fetched(self, source: Source, path: str) -> Sha256:
        with self._store.new_tree() as tree:
            (written,) = source.fetch([WantedFile(path)], tree, lambda: None)
        return written.sha256

    def _finding(self, path: str, kind: Kind, message: str) -> Finding:
        return Finding(self._group.name, path, kind, message)
