"""What every place offers that images are fetched from: a registry, a layout on a disk, an archive."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from dis_derivations.images.descriptor import Descriptor
from dis_store.digest import Sha256

if TYPE_CHECKING:
    from dis_store import TreeWriter, WrittenFile


class ImagePlace(Protocol):
    """A place that has images."""

    @property
    def at_once(self) -> int:
        """How many blobs are best asked for at a time."""
        ...

    def describe(self) -> str:
        """Return what messages call it."""
        ...

    def root(self) -> bytes:
        """Return the document that the place was opened for by digest or tag: an index or a manifest.

        Where that was a digest, the bytes have it.

        Raises:
            DisError: It cannot be had, or is not what it must be.
        """
        ...

    def document(self, digest: Sha256, limit: int) -> bytes:
        """Return another index or manifest, of at most `limit` bytes. Its bytes have the digest.

        Raises:
            DisError: As `root`.
        """
        ...

    def config(self, descriptor: Descriptor, limit: int) -> bytes:
        """Return a small blob, of at most `limit` bytes. Its bytes have the digest and the size.

        Raises:
            DisError: As `root`.
        """
        ...

    def lacks(self, descriptor: Descriptor) -> str | None:
        """Return why a blob cannot be had, as far as that is told without reading it; None where nothing is known."""
        ...

    def write(
        self,
        blob: Descriptor,
        path: str,
        writer: "TreeWriter",
        on_bytes: Callable[[int], None],
    ) -> "WrittenFile":
        """Write a blob into a tree. Its bytes have the digest and the size.

        Args:
            blob: Which.
            path: Where in the tree.
            writer: The tree.
            on_bytes: Told of each piece that has arrived; may raise to stop.

        Raises:
            DisError: It cannot be had, or is not what it must be.
        """
        ...
