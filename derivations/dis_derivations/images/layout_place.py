"""Images in an OCI layout: a directory, or a tar archive that holds the same files."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from dis_derivations.images.descriptor import Descriptor
from dis_derivations.images.image_documents import MAX_DOCUMENT_BYTES, parse_index
from dis_derivations.images.image_layout import INDEX_FILE, LAYOUT_FILE, blob_path
from dis_derivations.images.image_reference import image_name
from dis_derivations.registry.reference import RegistryReference
from dis_store import strict_json
from dis_store.digest import Sha256
from dis_store.errors import BuildError, InvalidInputError, MismatchError

if TYPE_CHECKING:
    from dis_store import TreeWriter, WrittenFile

_REF_NAME = "org.opencontainers.image.ref.name"
_FULL_NAME = "io.containerd.image.name"
_MAX_LAYOUT_BYTES = 4096


class LayoutFiles(Protocol):
    """The files of a layout, wherever they are."""

    def describe(self) -> str:
        """Return what messages call the layout."""
        ...

    def open(self, path: str) -> AbstractContextManager["OpenedFile"]:
        """Open a file of the layout.

        Raises:
            BuildError: It is not there, or no regular file.
        """
        ...

    def size(self, path: str) -> int | None:
        """Return the bytes of a file; None where there is none."""
        ...


@dataclass(frozen=True)
class OpenedFile:
    """A file, open for reading.

    Attributes:
        stream: At its beginning.
        size: In bytes.
        path: Where it is on this machine, if it is a file of its own there.
    """

    stream: BinaryIO
    size: int
    path: Path | None


class LayoutPlace:
    """An `ImagePlace` that is a layout.

    Args:
        files: The files of the layout.
        reference: Which of its images is meant: by digest, by tag, or the only one that it has.

    Raises:
        InvalidInputError: It is no layout.
    """

    def __init__(self, files: LayoutFiles, reference: RegistryReference) -> None:
        self._files = files
        self._reference = reference

    # A disk gives one file after the other soonest.
    at_once = 1

    def describe(self) -> str:
        """Return where the layout is."""
        return self._files.describe()

    def root(self) -> bytes:
        """Return what the digest names, wherever in the layout it is; or what the index has under the tag."""
        self._check_version()
        if self._reference.digest is not None:
            return self.document(self._reference.digest, MAX_DOCUMENT_BYTES)
        index = parse_index(self._read(INDEX_FILE, MAX_DOCUMENT_BYTES), self._name(INDEX_FILE))
        named = self._named(index.manifests)
        return self.document(named.digest, MAX_DOCUMENT_BYTES)

    def document(self, digest: Sha256, limit: int) -> bytes:
        """Return a blob that is a document."""
        return self._verified(digest, limit)

    def config(self, descriptor: Descriptor, limit: int) -> bytes:
        """Return a small blob."""
        data = self._verified(descriptor.digest, limit)
        self._check_size(descriptor, len(data))
        return data

    def lacks(self, descriptor: Descriptor) -> str | None:
        """Return that a blob is not there, or is too long or too short."""
        size = self._files.size(blob_path(descriptor.digest))
        if size is None:
            return f"{self.describe()} has no blob {descriptor.digest}"
        if size != descriptor.size:
            return f"the blob {descriptor.digest} in {self.describe()} has {size} bytes, not {descriptor.size}"
        return None

    def write(
        self,
        blob: Descriptor,
        path: str,
        writer: "TreeWriter",
        on_bytes: Callable[[int], None],
    ) -> "WrittenFile":
        """Copy a blob into a tree, by shared blocks where it is a file of its own and the file system can."""
        with self._files.open(blob_path(blob.digest)) as opened:
            self._check_size(blob, opened.size)
            if opened.path is not None:
                return writer.ingest(
                    path,
                    opened.path,
                    size=blob.size,
                    sha256=blob.digest,
                    executable=False,
                    on_bytes=on_bytes,
                )
            counted = cast("BinaryIO", _Counted(opened.stream, on_bytes))
            return writer.write_stream(path, counted, size=blob.size, sha256=blob.digest)

    def _check_version(self) -> None:
        name = self._name(LAYOUT_FILE)
        document = strict_json.decode(self._read(LAYOUT_FILE, _MAX_LAYOUT_BYTES), name=name)
        version = document.get("imageLayoutVersion") if isinstance(document, dict) else None
        if version != "1.0.0":
            raise InvalidInputError(
                f"{self.describe()} is no OCI layout",
                cause=f"its imageLayoutVersion is {version!r:.40}, not '1.0.0'",
            )

    def _named(self, entries: tuple[Descriptor, ...]) -> Descriptor:
        wanted = {self._reference.tag, image_name(self._reference), str(self._reference)}
        names = [
            [each.annotations[key] for key in (_FULL_NAME, _REF_NAME) if key in each.annotations]
            for each in entries
        ]
        found = [each for each, own in zip(entries, names, strict=True) if wanted & set(own)]
        if not found and len(entries) == 1 and not names[0]:
            return entries[0]
        if len({each.digest for each in found}) != 1:
            there = ", ".join(name for own in names for name in own) or "images without names"
            raise InvalidInputError(
                f"{self.describe()} has {'no' if not found else 'several'} {image_name(self._reference)}",
                cause=f"it has {there}",
                hint="name the image by its digest",
            )
        return found[0]

    def _verified(self, digest: Sha256, limit: int) -> bytes:
        data = self._read(blob_path(digest), limit)
        if (found := Sha256.of(data)) != digest:
            raise MismatchError(
                f"a blob in {self.describe()} is not what it is called",
                cause=f"it is called {digest}, and is {found}",
                hint="make the layout again",
            )
        return data

    def _check_size(self, blob: Descriptor, size: int) -> None:
        if size != blob.size:
            raise MismatchError(
                f"the blob {blob.digest} in {self.describe()} is not what its image says",
                cause=f"it has {size} bytes, and should have {blob.size}",
            )

    def _read(self, path: str, limit: int) -> bytes:
        with self._files.open(path) as opened:
            data = opened.stream.read(limit + 1)
        if len(data) > limit:
            raise InvalidInputError(
                f"{self._name(path)} is too large", cause=f"it has more than {limit} bytes"
            )
        return data

    def _name(self, path: str) -> str:
        return f"{path} in {self.describe()}"


class DirectoryFiles:
    """The files of a layout that is a directory.

    A link in it can do no harm, because what is read is compared with a digest.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def describe(self) -> str:
        """Return the directory."""
        return str(self._directory)

    @contextmanager
    def open(self, path: str) -> Iterator[OpenedFile]:
        """Open a regular file."""
        from dis_derivations.artifacts.regular_file import UnreadableWeightsError, open_regular

        place = self._directory / path
        try:
            stream = open_regular(place, name=str(place))
        except UnreadableWeightsError as error:
            raise BuildError(
                f"the image in {self._directory} cannot be read", cause=f"{place}: {error.cause}"
            ) from error
        with stream:
            yield OpenedFile(stream, os.fstat(stream.fileno()).st_size, place)

    def size(self, path: str) -> int | None:
        """Return the bytes of a file; None where there is none."""
        try:
            return (self._directory / path).stat().st_size
        except OSError:
            return None


class _Counted(RawIOBase):
    """A stream that tells how much was read of it."""

    def __init__(self, stream: BinaryIO, on_bytes: Callable[[int], None]) -> None:
        super().__init__()
        self._stream = stream
        self._on_bytes = on_bytes

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        data = self._stream.read(size)
        self._on_bytes(len(data))
        return data
