"""The sources of one manifest, from which builds fetch what its lock pins."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dis_derivations.manifest.artifact_groups import artifact_groups
from dis_derivations.manifest.loading import LoadedManifest
from dis_derivations.sources.registry import open_source
from dis_derivations.sources.source import WantedFile, uncounted
from dis_store.digest import Sha256
from dis_store.errors import UnfitEnvironmentError

if TYPE_CHECKING:
    from dis_store import TreeWriter


class ManifestSources:
    """A `SourceSet`: for each artifact, the source that the manifest names."""

    def __init__(self, loaded: LoadedManifest) -> None:
        self._groups = {group.label: group for group in artifact_groups(loaded)}

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
        if kind not in self._groups:
            raise UnfitEnvironmentError(
                f"the manifest names no source of its {kind}",
                cause="the lock was made from another manifest",
                hint="lock the manifest again: dis lock CONFIG",
            )
        source = open_source(self._groups[kind])
        if (unavailable := source.available()) is not None:
            raise UnfitEnvironmentError(
                f"the {kind} cannot be fetched", cause=unavailable.reason, hint=unavailable.hint
            )
        wanted = [WantedFile(file["path"], file["size"], Sha256(file["sha256"])) for file in files]
        source.fetch(wanted, writer, check_interrupted, on_bytes)
