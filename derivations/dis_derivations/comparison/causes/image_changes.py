"""What differs between two container images: their layers by place, the packages in these, and how they are run."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from dis_derivations.comparison.causes.json_changes import Change, json_changes
from dis_derivations.comparison.causes.package_changes import PackageChanges
from dis_derivations.images.contents.image_packages import ImageLayer, package_differences
from dis_derivations.images.contents.layer_stream import Allowance
from dis_derivations.images.image_documents import (
    MAX_CONFIG_BYTES,
    MAX_DOCUMENT_BYTES,
    ImageConfig,
    ImageManifest,
    parse_config,
    parse_index,
    parse_manifest,
    read_document,
)
from dis_derivations.images.image_layout import INDEX_FILE, LAYOUT_FILE, blob_path
from dis_derivations.images.media_types import LAYERS
from dis_derivations.runs.bundle_reader import ObjectFile, ObjectFiles
from dis_store.digest import Digest, Sha256
from dis_store.errors import InvalidInputError, UnsupportedError


@runtime_checkable
class _Elsewhere(Protocol):
    """A file that may have to be fetched before it can be read."""

    @property
    def at_hand(self) -> bool:
        """Whether nothing would be fetched for it."""
        ...


@dataclass(frozen=True)
class ImageChanges:
    """What differs between two images.

    Attributes:
        fields: Layers by their digests and makers, and what a process finds.
        packages: The packages in the layers that differ; None where no layer does, or none is read.
    """

    fields: tuple[Change, ...]
    packages: PackageChanges | None


def is_image(paths: Collection[str], below: str = "") -> bool:
    """Tell whether files are the layout of an image, by their names."""
    return f"{below}{LAYOUT_FILE}" in paths and f"{below}{INDEX_FILE}" in paths


def image_changes(
    stores: tuple[ObjectFiles, ObjectFiles],
    a: Digest,
    b: Digest,
    below: str = "",
    *,
    packages: bool = True,
) -> ImageChanges | None:
    """Return what differs between two images; None where one is no image as dis keeps them.

    Layers are the same where their digests are. Of those that differ, lists of packages are read, and of the others
    only where these need it; nothing is fetched for that.

    Args:
        stores: Where A and B are.
        a: An object that is an image, or has one.
        b: The other.
        below: Where in the objects the images are: `image/` in closures.
        packages: Whether layers are read at all.
    """
    old, new = (_Image.of(store, each, below) for store, each in zip(stores, (a, b), strict=True))
    if old is None or new is None:
        return None
    found = None
    if packages and old.config.diff_ids != new.config.diff_ids:
        found = package_differences(old.layers(), new.layers(), Allowance())
    return ImageChanges(
        json_changes("image", old.account(), new.account()),
        None if found is None else PackageChanges.of(found),
    )


@dataclass(frozen=True, eq=False)
class _Image:
    """An image by its documents.

    Attributes:
        files: Of the object that it is in.
        below: Where in it.
        manifest: The manifest.
        config: The configuration.
        makers: The command that made each layer, where that is known.
    """

    files: Mapping[str, ObjectFile]
    below: str
    manifest: ImageManifest
    config: ImageConfig
    makers: list[str | None]

    @classmethod
    def of(cls, store: ObjectFiles, digest: Digest, below: str) -> "_Image | None":
        """Read the documents of an image; return None where there is none as dis keeps them."""
        files = {each.path: each for each in store.files(digest)}

        def read(path: str, limit: int) -> bytes:
            file = files.get(below + path)
            if file is None or file.size > limit:
                raise InvalidInputError(f"{path} is no document of an image")
            return store.read_bytes(digest, below + path)

        try:
            index = parse_index(read(INDEX_FILE, MAX_DOCUMENT_BYTES), INDEX_FILE)
            if len(index.manifests) != 1:
                return None
            path = blob_path(index.manifests[0].digest)
            manifest = parse_manifest(read(path, MAX_DOCUMENT_BYTES), path)
            path = blob_path(manifest.config.digest)
            data = read(path, MAX_CONFIG_BYTES)
            config = parse_config(data, path, manifest)
            makers = _makers(read_document(data, path, MAX_CONFIG_BYTES), len(manifest.layers))
        except (InvalidInputError, UnsupportedError):
            return None
        return cls(files, below, manifest, config, makers)

    def account(self) -> dict[str, Any]:
        """Return the image as a document: its layers from the lowest, and what a process in it finds."""
        config = self.config
        layers = zip(config.diff_ids, self.makers, strict=True)
        return {
            "platform": str(config.platform),
            "layers": {
                # Two digits, so that layers are in their order in a list that is sorted by name.
                f"{place:02d}": {"content": str(content), "made_by": maker}
                for place, (content, maker) in enumerate(layers, 1)
            },
            "variables": dict(each.partition("=")[::2] for each in config.environment),
            "entrypoint": list(config.entrypoint),
            "command": list(config.command),
            "user": config.user,
            "working_directory": config.working_directory,
            "labels": dict(config.labels),
        }

    def layers(self) -> list[ImageLayer]:
        """Return the layers from the lowest, with where those are that can be read without fetching them."""
        pairs = zip(self.config.diff_ids, self.manifest.layers, strict=True)
        return [
            ImageLayer(str(content), self._place(blob.digest), LAYERS[blob.media_type])
            for content, blob in pairs
        ]

    def _place(self, blob: Sha256) -> Path | None:
        file = self.files.get(self.below + blob_path(blob))
        if file is None or (isinstance(file, _Elsewhere) and not file.at_hand):
            return None
        return file.real


def _makers(config: Mapping[str, Any], layers: int) -> list[str | None]:
    """Return the command that made each layer; None for all where the history is not one of these layers."""
    history = config.get("history")
    steps = [
        step for step in (history if isinstance(history, list) else ()) if isinstance(step, dict)
    ]
    made = [step.get("created_by") for step in steps if not step.get("empty_layer")]
    if len(made) != layers:
        return [None] * layers
    return [each if isinstance(each, str) else None for each in made]
