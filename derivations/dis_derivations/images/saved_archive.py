"""Images in what `docker save` writes: a tar archive, with an OCI layout in it or, before Docker 25, without."""

import hashlib
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from dis_derivations.images.descriptor import Descriptor
from dis_derivations.images.image_documents import MAX_CONFIG_BYTES, MAX_DOCUMENT_BYTES
from dis_derivations.images.image_layout import INDEX_FILE, LAYOUT_FILE
from dis_derivations.images.image_place import ImagePlace
from dis_derivations.images.image_reference import image_name
from dis_derivations.images.layout_place import LayoutPlace, OpenedFile
from dis_derivations.images.media_types import (
    OCI_CONFIG,
    OCI_LAYER,
    OCI_LAYER_GZIP,
    OCI_LAYER_ZSTD,
    OCI_MANIFEST,
)
from dis_derivations.images.tar_members import TarMember, TarMembers, tar_members
from dis_derivations.registry.reference import DOCKER_HUB, RegistryReference
from dis_store import canonical_json, strict_json
from dis_store.digest import Sha256
from dis_store.errors import BuildError, InvalidInputError, MismatchError

if TYPE_CHECKING:
    from dis_store import TreeWriter, WrittenFile

_MANIFEST = "manifest.json"
_PIECE = 1 << 20
_MAX_LINKS = 4
_PACKINGS = {b"\x1f\x8b": OCI_LAYER_GZIP, b"\x28\xb5": OCI_LAYER_ZSTD}


def open_saved(path: Path, reference: RegistryReference) -> ImagePlace:
    """Return the place that an archive is.

    Raises:
        BuildError: It cannot be read.
        InvalidInputError: It is no archive of images.
    """
    files = ArchiveFiles(path, tar_members(path))
    if files.size(LAYOUT_FILE) is not None and files.size(INDEX_FILE) is not None:
        return LayoutPlace(files, reference)
    if files.size(_MANIFEST) is None:
        raise InvalidInputError(
            f"{path} is no archive of an image",
            cause=f"it has neither {LAYOUT_FILE} nor {_MANIFEST}",
        )
    return SavedImage(files, reference)


class ArchiveFiles:
    """The files in a tar archive on this machine, by their names in it."""

    def __init__(self, path: Path, members: TarMembers) -> None:
        self._path = path
        self._members = members

    def describe(self) -> str:
        """Return the archive."""
        return str(self._path)

    def size(self, path: str) -> int | None:
        """Return the bytes of a file; None where there is none."""
        member = self._member(path)
        return None if member is None else member.size

    @contextmanager
    def open(self, path: str) -> Iterator[OpenedFile]:
        """Open one of the files."""
        member = self._member(path)
        if member is None:
            raise BuildError(f"the archive {self._path} has no file {path!r:.120}")
        try:
            stream = self._path.open("rb")
        except OSError as error:
            raise BuildError(f"{self._path} cannot be read", cause=error.strerror) from error
        with stream:
            stream.seek(member.offset)
            part = cast("BinaryIO", _Part(stream, member.size))
            yield OpenedFile(part, member.size, None)

    def _member(self, path: str) -> TarMember | None:
        # Older archives hold a layer that several images share once, and links to it.
        for _ in range(_MAX_LINKS):
            if path in self._members.files:
                return self._members.files[path]
            if path not in self._members.links:
                return None
            path = posixpath.normpath(
                posixpath.join(posixpath.dirname(path), self._members.links[path])
            )
        return None


class SavedImage:
    """An image in an archive without a manifest: the manifest is made, from the digests of what is there.

    It is the same for every archive of the image whose layers are packed alike, and another one than that of a
    registry, where layers are compressed.
    """

    at_once = 1

    def __init__(self, files: ArchiveFiles, reference: RegistryReference) -> None:
        self._files = files
        entry = self._entry(reference)
        self._names: dict[Sha256, str] = {}
        config = self._hashed(str(entry["Config"]), OCI_CONFIG)
        if config.size > MAX_CONFIG_BYTES:
            raise self._refusal(f"its configuration has {config.size} bytes")
        layers = [self._hashed(str(name), None) for name in entry["Layers"]]
        self._manifest = canonical_json.encode(
            {
                "schemaVersion": 2,
                "mediaType": OCI_MANIFEST,
                "config": config.to_json(),
                "layers": [layer.to_json() for layer in layers],
            }
        )
        if reference.digest not in (None, Sha256.of(self._manifest)):
            raise MismatchError(
                f"{self.describe()} does not hold {image_name(reference)}",
                cause=f"the image in it has no manifest; the one that belongs to it is {Sha256.of(self._manifest)}",
                hint="pin that digest; or name a layout that `skopeo copy docker://… oci:DIR` makes",
            )

    def describe(self) -> str:
        """Return the archive."""
        return self._files.describe()

    def root(self) -> bytes:
        """Return the manifest."""
        return self._manifest

    def document(self, digest: Sha256, limit: int) -> bytes:  # noqa: ARG002 - there is one, and it is small
        """Return the manifest if it is meant.

        Raises:
            BuildError: It is not.
        """
        if digest != Sha256.of(self._manifest):
            raise BuildError(f"{self.describe()} has no manifest {digest}")
        return self._manifest

    def config(self, descriptor: Descriptor, limit: int) -> bytes:
        """Return the configuration."""
        with self._files.open(self._names[descriptor.digest]) as opened:
            data = opened.stream.read(limit)
        if Sha256.of(data) != descriptor.digest:
            raise MismatchError(f"{self.describe()} was changed while it was read")
        return data

    def lacks(self, descriptor: Descriptor) -> str | None:
        """Return None for what was found when the archive was opened."""
        if descriptor.digest in self._names:
            return None
        return f"{self.describe()} has no blob {descriptor.digest}"

    def write(
        self,
        blob: Descriptor,
        path: str,
        writer: "TreeWriter",
        on_bytes: Callable[[int], None],
    ) -> "WrittenFile":
        """Copy a blob into a tree."""
        with self._files.open(self._names[blob.digest]) as opened:
            part = _Part(opened.stream, opened.size, on_bytes)
            return writer.write_stream(
                path, cast("BinaryIO", part), size=blob.size, sha256=blob.digest
            )

    def _entry(self, reference: RegistryReference) -> Mapping[str, Any]:
        with self._files.open(_MANIFEST) as opened:
            data = opened.stream.read(MAX_DOCUMENT_BYTES + 1)
        if len(data) > MAX_DOCUMENT_BYTES:
            raise self._refusal(f"{_MANIFEST} has more than {MAX_DOCUMENT_BYTES} bytes")
        entries = strict_json.decode(data, name=f"{_MANIFEST} in {self.describe()}")
        if not isinstance(entries, list) or not all(map(_is_entry, entries)):
            raise self._refusal(f"{_MANIFEST} is no list of images")
        return self._chosen(entries, reference)

    def _chosen(
        self, entries: Sequence[Mapping[str, Any]], reference: RegistryReference
    ) -> Mapping[str, Any]:
        names = _names_of(reference)
        found = [each for each in entries if names & set(each.get("RepoTags") or ())]
        if not found and len(entries) == 1 and not entries[0].get("RepoTags"):
            return entries[0]
        if not found and len(entries) == 1 and reference.digest is not None:
            return entries[0]
        if len(found) != 1:
            there = ", ".join(tag for each in entries for tag in each.get("RepoTags") or ())
            raise InvalidInputError(
                f"{self.describe()} does not hold {image_name(reference)}",
                cause=f"it holds {there or 'several images without names'}",
            )
        return found[0]

    def _hashed(self, name: str, media_type: str | None) -> Descriptor:
        hasher = hashlib.sha256()
        with self._files.open(name) as opened:
            first = piece = opened.stream.read(_PIECE)
            while piece:
                hasher.update(piece)
                piece = opened.stream.read(_PIECE)
        digest = Sha256(f"sha256:{hasher.hexdigest()}")
        self._names[digest] = name
        kind = media_type or _PACKINGS.get(first[:2], OCI_LAYER)
        return Descriptor(kind, digest, opened.size)

    def _refusal(self, cause: str) -> InvalidInputError:
        return InvalidInputError(f"{self.describe()} is no archive of an image", cause=cause)


class _Part(RawIOBase):
    """As many bytes of a stream as belong to one file."""

    def __init__(
        self, stream: BinaryIO, size: int, on_bytes: Callable[[int], None] = lambda _: None
    ) -> None:
        super().__init__()
        self._stream = stream
        self._left = size
        self._on_bytes = on_bytes

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; none at the end of the file."""
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._stream.read(wanted)
        self._left -= len(data)
        self._on_bytes(len(data))
        return data


def _is_entry(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("Config"), str):
        return False
    layers, tags = value.get("Layers"), value.get("RepoTags")
    return (
        isinstance(layers, list)
        and all(isinstance(each, str) for each in layers)
        and (tags is None or (isinstance(tags, list) and all(isinstance(t, str) for t in tags)))
    )


def _names_of(reference: RegistryReference) -> set[str]:
    """Return what Docker may call an image: names of Docker Hub are short there."""
    full = image_name(reference)
    names = {full}
    if reference.host == DOCKER_HUB:
        short = full.removeprefix(f"{DOCKER_HUB}/")
        names |= {short, short.removeprefix("library/")}
    return names
