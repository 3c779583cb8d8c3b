"""Images in a registry."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from dis_derivations.images.descriptor import Descriptor
from dis_derivations.images.image_reference import image_name
from dis_derivations.registry.reference import RegistryReference
from dis_derivations.sources.source import accept
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.registry.client import RegistryClient
    from dis_store import TreeWriter, WrittenFile


class RegistryPlace:
    """An `ImagePlace` that is a repository of a registry.

    Args:
        reference: The image, by digest or by tag.
        client: Who asks; None for one in the name of the user.
    """

    def __init__(
        self, reference: RegistryReference, client: "RegistryClient | None" = None
    ) -> None:
        self._reference = reference
        self._given_client = client

    @property
    def at_once(self) -> int:
        """As many as the client has connections for."""
        from dis_derivations.registry.client import BLOBS_AT_ONCE

        return BLOBS_AT_ONCE

    def describe(self) -> str:
        """Return the image as Docker would name it."""
        return image_name(self._reference)

    def root(self) -> bytes:
        """Return what the registry has under the digest or the tag; a tag is asked for now."""
        return self._client.manifest(self._reference).data

    def document(self, digest: Sha256, limit: int) -> bytes:
        """Return another document of the repository."""
        data = self._client.manifest(self._reference.with_digest(digest)).data
        if len(data) > limit:
            raise InvalidInputError(
                f"{digest} in {self.describe()} is too large", cause=f"it has {len(data)} bytes"
            )
        return data

    def config(self, descriptor: Descriptor, limit: int) -> bytes:
        """Return a small blob."""
        if descriptor.size > limit:
            raise InvalidInputError(
                f"the configuration of {self.describe()} is too large",
                cause=f"it has {descriptor.size} bytes",
            )
        return self._client.read_blob(self._reference, descriptor.digest, descriptor.size)

    def lacks(self, descriptor: Descriptor) -> str | None:  # noqa: ARG002 - asking for each costs a round trip
        """Return None: a registry that has the manifest was told that it has the blobs."""
        return None

    def write(
        self,
        blob: Descriptor,
        path: str,
        writer: "TreeWriter",
        on_bytes: Callable[[int], None],
    ) -> "WrittenFile":
        """Fetch a blob into a tree, going on with what an earlier fetch left."""
        from dis_derivations.transport.fetching import Fetcher
        from dis_derivations.transport.transfer import Listener

        exchange = self._client.exchange(self._reference)
        # Whoever wants to stop raises from `on_bytes`.
        listener = Listener(on_bytes, lambda: on_bytes(0))
        fetcher = Fetcher(exchange, writer, listener, accept, _unheard)
        remote = self._client.remote_file(self._reference, blob.digest, blob.size, path)
        (written,) = fetcher.fetch([remote])
        return written

    @property
    def _client(self) -> "RegistryClient":
        if self._given_client is None:
            from dis_derivations.registry.client import RegistryClient

            self._given_client = RegistryClient()
        return self._given_client


def _unheard(_line: str) -> None:
    """Take a note that there never is: a blob has one address."""
