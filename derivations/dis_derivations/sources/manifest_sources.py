"""The sources of one manifest, from which builds fetch what its lock pins."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dis_derivations.environments.wheel_names import is_package
from dis_derivations.environments.wheel_source import WheelSource
from dis_derivations.manifest.artifact_groups import artifact_groups
from dis_derivations.manifest.loading import LoadedManifest
from dis_derivations.sources.hub_repository import Repositories
from dis_derivations.sources.local import check_arrived
from dis_derivations.sources.package_index import PackageIndex
from dis_derivations.sources.pypi import LockedWheel
from dis_derivations.sources.registry import open_source
from dis_derivations.sources.source import Remarking, Resolving, WantedFile
from dis_store.digest import Sha256
from dis_store.errors import UnfitEnvironmentError
from dis_store.reading import StoreReader
from dis_store.work_progress import uncounted

if TYPE_CHECKING:
    from dis_store import TreeWriter


def unheard(_kind: str, _text: str) -> None:
    """Take a note that nobody asked for."""


class ManifestSources:
    """A `SourceSet`: for each artifact, the source that the manifest names.

    Args:
        loaded: The manifest.
        locked: For artifacts that come from a repository, the `commit` that is locked, by name.
        note: Told what a source has to tell of a fetch, by the artifact's label.
    """

    def __init__(
        self,
        loaded: LoadedManifest,
        locked: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        note: Callable[[str, str], None] = unheard,
    ) -> None:
        self._groups = {group.label: group for group in artifact_groups(loaded)}
        self._locked = locked
        self._note = note
        self._repositories = Repositories()
        self._index = PackageIndex()

    def fetch(
        self,
        kind: str,
        files: Sequence[Mapping[str, Any]],
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None] = uncounted,
    ) -> None:
        """Write the locked files of `kind` into a tree; each is compared with its size and digest.

        Raises:
            IntegrityError: A file is not what was locked.
            UnfitEnvironmentError: The manifest names no source of `kind` that this version can use.
            BuildError: A file cannot be had.
        """
        if is_package(kind):
            self._fetch_wheels(kind, files, writer, check_interrupted, on_bytes)
            return
        if kind not in self._groups:
            raise UnfitEnvironmentError(
                f"the manifest names no source of its {kind}",
                cause="the lock was made from another manifest",
                hint="lock the manifest again: dis lock CONFIG",
            )
        wanted = [WantedFile(file["path"], file["size"], Sha256(file["sha256"])) for file in files]
        wanted = _not_stored(wanted, writer, on_bytes)
        if not wanted:
            return
        group = self._groups[kind]
        locked = self._locked.get(group.name, {})
        source = open_source(
            group,
            commit=locked.get("commit"),
            wheel=LockedWheel.of_lock(locked),
            image=locked,
            repositories=self._repositories,
            store=StoreReader(writer.foundation),
        )
        # What is locked is asked for by commit and digest; a list of the hub's files is not needed for that.
        unavailable = None if isinstance(source, Resolving) else source.available()
        if unavailable is not None:
            raise UnfitEnvironmentError(
                f"the {kind} cannot be fetched", cause=unavailable.reason, hint=unavailable.hint
            )
        source.fetch(wanted, writer, check_interrupted, on_bytes)
        for remark in source.remarks if isinstance(source, Remarking) else ():
            self._note(kind, remark)

    def _fetch_wheels(
        self,
        kind: str,
        files: Sequence[Mapping[str, Any]],
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None],
    ) -> None:
        wanted = [WantedFile(file["path"], file["size"], Sha256(file["sha256"])) for file in files]
        for file in _not_stored(wanted, writer, on_bytes):
            source = WheelSource(file.path, file.sha256, index=self._index)
            if (unavailable := source.available()) is not None:
                raise UnfitEnvironmentError(
                    f"{file.path} cannot be fetched",
                    cause=unavailable.reason,
                    hint=unavailable.hint,
                )
            source.fetch([file], writer, check_interrupted, on_bytes)
            for remark in source.remarks:
                self._note(kind, remark)

    def origin(self, kind: str) -> str:
        """Return where the files of `kind` would be fetched from, for people; it holds nothing secret."""
        if is_package(kind):
            return "the package index"
        return open_source(self._groups[kind]).describe() if kind in self._groups else ""


def _not_stored(
    wanted: list[WantedFile], writer: "TreeWriter", on_bytes: Callable[[int], None]
) -> list[WantedFile]:
    """Take files that the store has already, if it has all of them, and return those that are left to be fetched."""
    from dis_store.writing.arrivals import has_stored, take_stored

    known = [(file, file.sha256) for file in wanted if file.sha256 is not None]
    # A source that has to fetch one of them wants to see them all together.
    if len(known) < len(wanted) or not all(
        has_stored(writer, sha256, file.size, on_bytes) for file, sha256 in known
    ):
        return wanted
    left = []
    for file, sha256 in known:
        stored = take_stored(writer, file.path, sha256, file.size, on_bytes)
        if stored is None:
            left.append(file)
        else:
            check_arrived(file, stored, "the store")
    return left
