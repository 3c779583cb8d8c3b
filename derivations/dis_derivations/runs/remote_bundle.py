"""The bundle of a run in a registry: what is not read of it is not fetched."""

from typing import TYPE_CHECKING

from dis_derivations.runs.bundle_reader import StoredBundle
from dis_store.digest import Digest
from dis_store.errors import DisError, IntegrityError

if TYPE_CHECKING:
    from dis_derivations.distribution.remote_objects import RemoteObjects


class RemoteBundle(StoredBundle):
    """A bundle in a registry.

    Args:
        remote: The objects that came with it.
        digest: The bundle.

    Raises:
        RegistryMismatchError: The registry lacks a part of it, or has another one in its place.
    """

    def __init__(self, remote: "RemoteObjects", digest: Digest) -> None:
        super().__init__(remote, digest)
        self._remote = remote
        self._sizes = {each.path: each.size for each in remote.files(digest)}

    def describe(self) -> str:
        """Return what messages call this bundle."""
        return f"the run {self._remote.closure.reference}"

    def size(self, path: str) -> int:
        """Return how many bytes a file has."""
        return self._sizes[path]

    def is_at_hand(self, path: str) -> bool:
        """Return whether a file can be read without fetching it."""
        digest = self.file_digest(path)
        return digest is not None and self._remote.is_at_hand(digest)

    def refusal(self, what: str, cause: str | None = None) -> DisError:
        """Return the error for a bundle that contradicts itself."""
        hint = "whoever pushed it can push it again: dis push"
        return IntegrityError(f"{what} in {self.describe()}", cause=cause, hint=hint)
