"""An image as a source of files: those of its layout, from wherever the image is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.images.image_layout import (
    INDEX_FILE,
    LAYOUT_BYTES,
    LAYOUT_FILE,
    blob_path,
    index_bytes,
)
from dis_derivations.images.image_reference import image_name, image_reference
from dis_derivations.sources.source import Problem, Unavailable, WantedFile
from dis_store.digest import Sha256
from dis_store.errors import BuildError, DisError, MismatchError
from dis_store.work_progress import uncounted

if TYPE_CHECKING:
    from dis_derivations.images.image_place import ImagePlace
    from dis_derivations.images.resolution import ResolvedImage
    from dis_derivations.registry.reference import RegistryReference
    from dis_store import TreeWriter, WrittenFile


@dataclass(frozen=True)
class PublishedBlob:
    """What a manifest says of a file of its image: size in bytes, and digest; None for what dis writes itself."""

    size: int
    sha256: Sha256 | None


class ImageSource:
    """The files of one image.

    Args:
        name: The image, as a manifest names it.
        location: A layout or an archive on this machine that has it; None for the registry in its name.
        locked: What a lock pins of it (`ResolvedImage.to_lock`); nothing where it is to be resolved now.
    """

    def __init__(
        self, name: str, location: Path | None = None, locked: Mapping[str, str] | None = None
    ) -> None:
        locked = locked or {}
        reference = image_reference(name)
        # What the manifest pins itself is followed from there on, whatever a lock says that it leads to.
        if reference.digest is None and "manifest" in locked:
            reference = reference.with_digest(Sha256(locked["manifest"]))
        self._reference = reference
        self._location = location
        self._platform = locked.get("platform")
        self._found: ResolvedImage | DisError | None = None
        self._place: ImagePlace | None = None

    def describe(self) -> str:
        """Return the image, and where it is if that is not in its name."""
        name = image_name(self._reference)
        return name if self._location is None else f"{name} in {self._location}"

    def available(self) -> Unavailable | None:
        """Return why the image is not known; its manifest and configuration are asked for."""
        found = self._look()
        return Unavailable(str(found), found.hint or "") if isinstance(found, DisError) else None

    def listing(self) -> list[str]:
        """Return every file of its layout."""
        found = self._look()
        return [] if isinstance(found, DisError) else sorted(found.files)

    def problem(self, path: str) -> Problem | None:
        """Return why a file of it cannot be had, as far as that is told without reading it."""
        found = self._look()
        if isinstance(found, DisError):
            return Problem("source_unavailable", str(found), found.hint)
        if path not in found.files:
            return Problem("not_found", f"{self.describe()} has no file {path}")
        descriptor = next((d for d in found.content.blobs if blob_path(d.digest) == path), None)
        lacking = None if descriptor is None else self._opened().lacks(descriptor)
        return None if lacking is None else Problem("not_found", lacking)

    def disagreement(self, paths: Sequence[str]) -> Problem | None:  # noqa: ARG002 - the manifest agrees with itself
        """Return None: the files are those of one manifest."""
        return None

    def size(self, path: str) -> int | None:
        """Return the bytes of a file; None where the image is not known."""
        found = self._look()
        return None if isinstance(found, DisError) else found.files.get(path, (None,))[0]

    def published(self, path: str) -> PublishedBlob:
        """Return what the manifest says of a file.

        Raises:
            DisError: The image is not known.
        """
        image = self.resolved()
        size, sha256 = image.files[path]
        written_here = path in (LAYOUT_FILE, INDEX_FILE, blob_path(image.manifest.digest))
        return PublishedBlob(size, None if written_here else sha256)

    def read_small(self, path: str) -> bytes:
        """Return a file that dis writes, or has read already."""
        image = self.resolved()
        if path == LAYOUT_FILE:
            return LAYOUT_BYTES
        return index_bytes(image.manifest) if path == INDEX_FILE else image.manifest_bytes

    def resolved(self) -> "ResolvedImage":
        """Return the image, down to its last digest.

        Raises:
            DisError: It cannot be had, or is malformed.
        """
        found = self._look()
        if isinstance(found, DisError):
            raise found
        return found

    def fetch(
        self,
        files: Sequence[WantedFile],
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None] = uncounted,
    ) -> "list[WrittenFile]":
        """Write files of the image into a tree; a layer that the store has already is not fetched again.

        Raises:
            MismatchError: The image is not the one that was wanted.
            BuildError: It cannot be had.
        """
        from dis_derivations.images.fetching import write_all

        image = self.resolved()

        def write(wanted: WantedFile, count: Callable[[int], None]) -> "WrittenFile":
            check_interrupted()
            return self._write(image, wanted, writer, count)

        return write_all(write, files, self._opened().at_once, on_bytes)

    def _write(
        self,
        image: "ResolvedImage",
        wanted: WantedFile,
        writer: "TreeWriter",
        on_bytes: Callable[[int], None],
    ) -> "WrittenFile":
        from dis_store.writing.arrivals import take_stored

        self._check(image, wanted)
        size, sha256 = image.files[wanted.path]
        if self.published(wanted.path).sha256 is None:
            data = self.read_small(wanted.path)
            on_bytes(len(data))
            return writer.write_bytes(wanted.path, data)
        if (stored := take_stored(writer, wanted.path, sha256, size, on_bytes)) is not None:
            return stored
        blob = next(each for each in image.content.blobs if each.digest == sha256)
        return self._opened().write(blob, wanted.path, writer, on_bytes)

    def _check(self, image: "ResolvedImage", wanted: WantedFile) -> None:
        size, sha256 = image.files.get(wanted.path, (None, None))
        if sha256 is None:
            raise MismatchError(
                f"{wanted.path} is no part of {self.describe()}",
                cause="the image is another one than was locked",
                hint="lock the image again: dis lock CONFIG --update runtime.image",
            )
        if wanted.sha256 not in (None, sha256) or wanted.size not in (None, size):
            raise MismatchError(
                f"{wanted.path} of {self.describe()} is not the file that was locked",
                cause=f"wanted {wanted.sha256} in {wanted.size} bytes, the image has {sha256} in {size} bytes",
                hint="lock the image again: dis lock CONFIG --update runtime.image",
            )

    def _look(self) -> "ResolvedImage | DisError":
        if self._found is None:
            from dis_derivations.images.platform import machine_platform, platform_of
            from dis_derivations.images.resolution import resolve_image

            named = self._platform
            try:
                platform = machine_platform() if named is None else platform_of(named)
                self._found = resolve_image(self._opened(), platform)
            except DisError as error:
                self._found = error
        return self._found

    def _opened(self) -> "ImagePlace":
        if self._place is None:
            self._place = open_place(self._reference, self._location)
        return self._place


def open_place(reference: "RegistryReference", location: Path | None) -> "ImagePlace":
    """Return where an image is fetched from.

    Args:
        reference: Which image.
        location: A directory that is a layout, or an archive; None for the registry in its name.

    Raises:
        DisError: There is no such place.
    """
    if location is None:
        from dis_derivations.images.registry_place import RegistryPlace

        return RegistryPlace(reference)
    if location.is_dir():
        from dis_derivations.images.layout_place import DirectoryFiles, LayoutPlace

        return LayoutPlace(DirectoryFiles(location), reference)
    if not location.exists():
        raise BuildError(
            f"there is no image at {location}",
            hint="name a directory that is an OCI layout, or what `docker save` wrote",
        )
    from dis_derivations.images.saved_archive import open_saved

    return open_saved(location, reference)
