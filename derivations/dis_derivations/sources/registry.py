"""The kinds of sources by their type in a manifest."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.manifest.artifact_groups import DATASET, WEIGHTS, ArtifactGroup
from dis_derivations.manifest.text_forms import is_unset_revision
from dis_derivations.sources.hub_repository import Repositories
from dis_derivations.sources.hugging_face import HuggingFaceSource
from dis_derivations.sources.local import LocalDirectory, LocalFile
from dis_derivations.sources.pypi import LockedWheel, PypiSource
from dis_derivations.sources.source import (
    Problem,
    Source,
    Unavailable,
    WantedFile,
    accept_all,
    uncounted,
)
from dis_derivations.sources.url import UrlSource
from dis_store.errors import BuildError

if TYPE_CHECKING:
    from dis_store import TreeWriter, WrittenFile

# What a type is called in a message. A later version replaces the entry here by a factory of its
# own.
_NOT_YET = {
    "huggingface": "the Hugging Face Hub",
    "pypi": "PyPI",
    "oci": "an OCI registry",
    "store": "another store",
}


_WEIGHTS_SOURCE = "/model/weights/source"


class NotYetAvailable:
    """A source whose type is known and which this version cannot fetch from."""

    def __init__(self, source_type: str, field: str) -> None:
        self._type = source_type
        self._field = field.strip("/").replace("/", ".")

    def describe(self) -> str:
        """Return the type in words."""
        return _NOT_YET[self._type]

    def available(self) -> Unavailable | None:
        """Return why it is not available, and how to do without it."""
        return Unavailable(
            reason=f"fetching from {self.describe()} is not available in this version of dis, "
            "and no local_path says where the files are",
            hint=f"say where the files are on this machine: --set {self._field}.local_path=DIR",
        )

    def listing(self) -> list[str]:
        """Return nothing: what it has is not known."""
        return []

    def problem(self, path: str) -> Problem | None:
        """Return that the file cannot be had."""
        return Problem(
            "source_unavailable", f"{path} cannot be fetched from {self.describe()} by this version"
        )

    def disagreement(self, paths: Sequence[str]) -> Problem | None:  # noqa: ARG002 - none is known
        """Return None."""
        return None

    def size(self, path: str) -> int | None:  # noqa: ARG002 - no file of it is known
        """Return None."""
        return None

    def fetch(
        self,
        files: Sequence[WantedFile],
        writer: "TreeWriter",  # noqa: ARG002 - nothing is written
        check_interrupted: Callable[[], None],  # noqa: ARG002 - nothing takes time
        on_bytes: Callable[[int], None] = uncounted,  # noqa: ARG002 - nothing arrives
    ) -> "list[WrittenFile]":
        """Refuse.

        Raises:
            BuildError: Always.
        """
        raise BuildError(
            f"{len(files)} files cannot be fetched from {self.describe()} by this version of dis"
        )


def open_source(
    group: ArtifactGroup,
    *,
    commit: str | None = None,
    wheel: LockedWheel | None = None,
    repositories: Repositories | None = None,
) -> Source:
    """Return the source of an artifact; files at a `local_path` serve any type of source.

    Args:
        group: The artifact.
        commit: The one of a repository that its lock pins; without it, what the revision names now.
        wheel: The one of a package that its lock pins.
        repositories: What one command has opened before, to be asked once.
    """
    location, source = group.source.location, group.source
    # What a dataset is called in a repository or a wheel, no manifest can say.
    named = location is None and group.name != DATASET
    if named and source.type == "huggingface":
        revision = commit or ("" if is_unset_revision(source.revision) else source.revision or "")
        repository = (repositories or Repositories()).open(source.repository or "", revision)
        return HuggingFaceSource(repository, is_weights=group.name == WEIGHTS)
    if named and source.type == "pypi":
        return _pypi_source(group, wheel)
    if location is None and source.type == "url":
        return _url_source(group)
    if location is None:
        return NotYetAvailable(group.source.type, group.source.field)
    return _local_source(group, location)


def _local_source(group: ArtifactGroup, location: Path) -> Source:
    if group.name == DATASET:
        return LocalFile(location, group.files[0].path)
    if group.name == WEIGHTS:
        return LocalDirectory(location, check=_check_file, check_all=_check_weights)
    return LocalDirectory(location, check=_check_file)


def _pypi_source(group: ArtifactGroup, wheel: LockedWheel | None) -> PypiSource:
    source = group.source
    return PypiSource(
        source.repository or "",
        None if is_unset_revision(source.revision) else source.revision,
        locked=wheel,
        check_all=_check_weights if group.name == WEIGHTS else None,
    )


def _url_source(group: ArtifactGroup) -> UrlSource:
    source = group.source
    if group.name == DATASET:
        return UrlSource(source.url or "", source.mirrors, name=group.files[0].path)
    return UrlSource(
        source.url or "",
        source.mirrors,
        check=_check_file,
        check_all=_check_weights if group.name == WEIGHTS else accept_all,
        inherited=group.name != WEIGHTS and source.field == _WEIGHTS_SOURCE,
    )


def _check_file(path: str, source: Path) -> None:
    from dis_derivations.artifacts.weights_check import check_weight_file

    check_weight_file(path, source)


def _check_weights(files: Mapping[str, Path]) -> None:
    from dis_derivations.artifacts.weights_check import check_checkpoint

    check_checkpoint(files)
