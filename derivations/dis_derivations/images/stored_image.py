"""Images as they are in the store: found in an object, and checked from its list of files to the last digest."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.images.image_documents import MAX_DOCUMENT_BYTES, parse_index
from dis_derivations.images.image_layout import (
    INDEX_FILE,
    LAYOUT_FILE,
    blob_path,
    index_bytes,
)
from dis_derivations.images.layout_place import LayoutPlace, OpenedFile
from dis_derivations.images.platform import machine_platform
from dis_derivations.images.resolution import ResolvedImage, resolve_image
from dis_derivations.registry.reference import RegistryReference
from dis_store.digest import Digest, Sha256
from dis_store.errors import BuildError, InvalidInputError

if TYPE_CHECKING:
    from dis_store import ResolvedFile, Store

# Where a closure, and so what is made of one, has the image that its engine runs in.
_PREFIXES = ("", "image/")


@dataclass(frozen=True)
class StoredImage:
    """An image that the store has.

    Attributes:
        object: Its own object, whatever object it was found through.
        image: The image.
        blobs: Where configuration and layers lie on this machine, by digest.
        size: The bytes of all its files.
    """

    object: Digest
    image: ResolvedImage
    blobs: dict[Sha256, Path]
    size: int

    @property
    def id(self) -> Sha256:
        """What Docker calls the image: the digest of its configuration."""
        return self.image.content.config.digest


def is_image(store: "Store", digest: Digest) -> bool:
    """Tell whether an object is the layout of an image, by the names of its files."""
    names = {entry.path for entry in store.tree(digest).files}
    return {LAYOUT_FILE, INDEX_FILE} <= names


def read_stored(store: "Store", digest: Digest) -> StoredImage:
    """Return the image in an object: one that is an image, or a closure that has one.

    Documents are read and compared with their digests; of layers only size and place are looked at.

    Args:
        store: Has the object.
        digest: The object.

    Raises:
        InvalidInputError: There is no image in it, or it is not as dis keeps images.
        IntegrityError: A document is not what it must be.
    """
    files = {file.path: file for file in store.files(digest)}
    prefix = next((each for each in _PREFIXES if f"{each}{LAYOUT_FILE}" in files), None)
    if prefix is None:
        raise InvalidInputError(
            f"there is no image in the object {digest}",
            hint="dis image ls shows the images in the store",
        )
    own = {
        path.removeprefix(prefix): file for path, file in files.items() if path.startswith(prefix)
    }
    place = LayoutPlace(_StoredFiles(own, f"the object {digest}"), _stand_in(store, digest, prefix))
    image = resolve_image(place, machine_platform())
    _check_files(own, image, digest)
    return StoredImage(
        object=own[LAYOUT_FILE].owner,
        image=image,
        blobs={blob.digest: own[blob_path(blob.digest)].real for blob in image.content.blobs},
        size=sum(file.size for file in own.values()),
    )


def _stand_in(store: "Store", digest: Digest, prefix: str) -> RegistryReference:
    """Return a reference to the one image that the layout names: in the store it has no other name."""
    data = store.read_bytes(digest, f"{prefix}{INDEX_FILE}")
    name = f"{INDEX_FILE} of the object {digest}"
    entries = parse_index(data[: MAX_DOCUMENT_BYTES + 1], name).manifests
    if len(entries) != 1 or data != index_bytes(entries[0]):
        raise InvalidInputError(
            f"the object {digest} is not an image as dis keeps them",
            cause=f"its {INDEX_FILE} is not the one of a single image",
            hint="take it in as an image: runtime.execution.vllm_image_path names a layout",
        )
    return RegistryReference("localhost", "stored", None, entries[0].digest)


def _check_files(own: dict[str, "ResolvedFile"], image: ResolvedImage, digest: Digest) -> None:
    """Refuse an object that has other files than its image is made of."""
    sizes = {path: file.size for path, file in own.items()}
    expected = {path: size for path, (size, _) in image.files.items()}
    if sizes != expected:
        path = min(set(sizes.items()) ^ set(expected.items()))[0]
        raise InvalidInputError(
            f"the object {digest} is not an image as dis keeps them",
            cause=f"{path} is missing, too much, or has another size than the image says",
        )


class _StoredFiles:
    """The files of a layout in the store."""

    def __init__(self, files: "dict[str, ResolvedFile]", name: str) -> None:
        self._files = files
        self._name = name

    def describe(self) -> str:
        return self._name

    def size(self, path: str) -> int | None:
        return self._files[path].size if path in self._files else None

    @contextmanager
    def open(self, path: str) -> Iterator[OpenedFile]:
        if path not in self._files:
            raise BuildError(f"{self._name} has no file {path!r:.120}")
        real = self._files[path].real
        descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as stream:
            yield OpenedFile(stream, self._files[path].size, real)
