"""What registries can be asked and told: manifests, blobs, tags and what refers to something."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, Self
from urllib.parse import quote, urlencode

from dis_derivations.registry import documents, listings
from dis_derivations.registry.authority import Authority, Scope
from dis_derivations.registry.credentials import CredentialStore, Login, Origin
from dis_derivations.registry.documents import Descriptor, FetchedManifest
from dis_derivations.registry.errors import RegistryMismatchError, RegistryRefusedError
from dis_derivations.registry.exchange import Call, Exchange, read_all
from dis_derivations.registry.flight import Flight
from dis_derivations.registry.reference import RegistryReference
from dis_derivations.registry.upload_notes import UploadNotes
from dis_derivations.registry.uploads import WHOLE_BYTES, Blob, Upload, blob_of_bytes
from dis_derivations.sources.source import WantedFile
from dis_derivations.transport.address import Address
from dis_derivations.transport.client import OK, Answer, never_interrupted
from dis_derivations.transport.conduct import Conduct
from dis_derivations.transport.connections import Connections
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError
from dis_store.work_progress import uncounted

if TYPE_CHECKING:
    from dis_derivations.transport.fetching import RemoteFile
    from dis_derivations.transport.transfer import Listener
    from dis_store.hashing import Content
    from dis_store.writing.downloads import Download

Sent = Literal["present", "mounted", "sent"]
"""What became of a blob: the registry had it, took it from another of its repositories, or was sent it."""
MAX_READ_BYTES = 32 << 20
"""The longest blob that is read into memory."""
BLOBS_AT_ONCE = 4
"""How many blobs of one registry are fetched or sent at a time."""
_CREATED, _ACCEPTED = 201, 202
_RANGES = 2


def registry_conduct() -> Conduct:
    """Return how patient and how busy registries are asked: each blob in few ranges, because there are several."""
    return Conduct(ranges=_RANGES)


class RegistryClient:
    """Asks registries. Threads may share it; all of them together keep to the bounds of connections.

    Args:
        environment: Where passwords, proxies and directories are named; that of the process if it is None.
        conduct: Its bounds.
        login: A password that comes before those that are stored, for all registries that are asked.
        agreed: Further servers for tokens that may be told it.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        conduct: Conduct | None = None,
        *,
        login: Login | None = None,
        agreed: frozenset[Origin] = frozenset(),
    ) -> None:
        self.environment = dict(os.environ if environment is None else environment)
        self.conduct = conduct or registry_conduct()
        self.credentials = CredentialStore(self.environment)
        self._login = login
        self._agreed = agreed
        # A place to keep each connection that may be open at once.
        pooled = Conduct(
            connect_seconds=self.conduct.connect_seconds,
            silence_seconds=self.conduct.silence_seconds,
            ranges=BLOBS_AT_ONCE * (self.conduct.ranges + 1),
        )
        self._connections = Connections(pooled, self.environment)
        self._authorities: dict[str, Authority] = {}
        self._lock = threading.Lock()
        self.notes: UploadNotes | None = UploadNotes.of(self.environment)
        self._flight = Flight(WHOLE_BYTES)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # How it is asked

    def exchange(self, reference: RegistryReference, scope: Scope | None = None) -> Exchange:
        """Return what asks the registry of a reference; with it, `transport.fetching.Fetcher` fetches blobs.

        Args:
            reference: Names the registry and the repository.
            scope: What is going to be done; fetching from the repository if it is None.
        """
        with self._lock:
            authority = self._authorities.get(reference.host)
            if authority is None:
                authority = self._authorities[reference.host] = Authority(
                    reference.host,
                    self._connections,
                    self.credentials,
                    login=self._login,
                    agreed=self._agreed,
                )
        return Exchange(
            self._connections,
            self.conduct,
            self.environment,
            authority,
            scope or Scope.pull(reference.repository),
            reference.address("").origin,
        )

    # Manifests

    def manifest(
        self,
        reference: RegistryReference,
        check_interrupted: Callable[[], None] = never_interrupted,
    ) -> FetchedManifest:
        """Return the manifest or index that a reference names, compared with its digest where that is pinned.

        Raises:
            RegistryRefusedError: It is not there, or not for who asks.
            RegistryMismatchError: It is not what its digest or its server says.
            TransferError: The registry cannot be reached, or makes no sense.
        """
        address = reference.address(f"{reference.repository}/manifests/{reference.target}")
        call = Call("GET", address, {"Accept": ", ".join(documents.ACCEPTED)})

        def read(answer: Answer) -> tuple[bytes, str, str | None]:
            data = read_all(answer, documents.MAX_MANIFEST_BYTES)
            headers = answer.headers
            return data, headers.get("Content-Type", ""), headers.get("Docker-Content-Digest")

        with _named(reference):
            data, media_type, told = self.exchange(reference).perform(
                call, (OK,), read, check_interrupted
            )
        found = Sha256.of(data)
        if reference.digest not in (None, found):
            raise _other_digest(str(reference), str(reference.digest), found)
        if told is not None and told.startswith("sha256:") and told != found:
            raise _other_digest(str(reference), told, found)
        return FetchedManifest(data, documents.media_type_of(data, media_type), found)

    def resolve(self, reference: RegistryReference) -> Sha256:
        """Return the digest of what a reference names; what the registry says of a tag is not verified.

        Raises:
            RegistryRefusedError, RegistryMismatchError, TransferError: As `manifest`.
        """
        if reference.digest is not None:
            return reference.digest
        address = reference.address(f"{reference.repository}/manifests/{reference.target}")
        call = Call("HEAD", address, {"Accept": ", ".join(documents.ACCEPTED)})
        with _named(reference):
            told = self.exchange(reference).perform(
                call, (OK,), lambda answer: answer.headers.get("Docker-Content-Digest")
            )
        try:
            return Sha256(told or "")
        except InvalidInputError:
            return self.manifest(reference).digest

    def find(self, reference: RegistryReference) -> Sha256 | None:
        """Return the digest of what a reference names; None where there is nothing.

        Raises:
            RegistryRefusedError, RegistryMismatchError, TransferError: As `manifest`.
        """
        if reference.digest is not None:
            path = f"{reference.repository}/manifests/{reference.digest}"
            return reference.digest if self._is_there(reference, path) else None
        try:
            return self.resolve(reference)
        except RegistryRefusedError as error:
            if error.is_missing:
                return None
            raise

    def push_manifest(
        self,
        reference: RegistryReference,
        data: bytes,
        media_type: str,
        check_interrupted: Callable[[], None] = never_interrupted,
    ) -> Sha256:
        """Put a manifest or an index into a repository, under its tag, or under its digest where there is none.

        One that says something about another one, its `subject`, is entered in the list under the tag
        `sha256-<hex>` where the registry keeps no such list itself.

        Raises:
            RegistryRefusedError: The registry refuses it.
            TransferError: It cannot be reached, or makes no sense.
        """
        digest = Sha256.of(data)
        target = reference.tag or digest
        address = reference.address(f"{reference.repository}/manifests/{target}")
        exchange = self.exchange(reference, Scope.push(reference.repository))
        call = Call("PUT", address, {"Content-Type": media_type}, lambda: (data,), len(data))
        headers = exchange.perform(
            call, (_CREATED,), lambda answer: answer.headers, check_interrupted
        )
        told = headers.get("Docker-Content-Digest")
        if told is not None and told.startswith("sha256:") and told != digest:
            raise _other_digest(str(reference), digest, told)
        subject = documents.read_document(data).get("subject")
        if subject is not None and "OCI-Subject" not in headers:
            listings.enter_referrer(self, reference, data, media_type)
        return digest

    def tags(self, reference: RegistryReference) -> list[str]:
        """Return the tags of a repository, sorted.

        Raises:
            RegistryRefusedError, TransferError: As `manifest`.
        """
        return listings.tags(self.exchange(reference), reference)

    def referrers(self, reference: RegistryReference, artifact_type: str = "") -> list[Descriptor]:
        """Return what says something about a manifest: by the registry's own list, or by the tag that stands for one.

        Args:
            reference: With the digest of the manifest.
            artifact_type: The kind that is wanted. What does not say its kind is listed all the same.

        Raises:
            RegistryRefusedError, RegistryMismatchError, TransferError: As `manifest`.
        """
        return listings.referrers(self, reference, artifact_type)

    # Blobs

    def blob_address(self, reference: RegistryReference, digest: Sha256) -> Address:
        """Return where a blob is."""
        return reference.address(f"{reference.repository}/blobs/{digest}")

    def remote_file(
        self, reference: RegistryReference, digest: Sha256, size: int, path: str
    ) -> "RemoteFile":
        """Return a blob as a file for `transport.fetching.Fetcher`, whose client is `exchange(reference)`.

        Args:
            reference: Names the repository.
            digest: The blob.
            size: Its bytes.
            path: Where the file goes in the object.
        """
        from dis_derivations.transport.fetching import RemoteFile

        wanted = WantedFile(path, size, digest)
        return RemoteFile(wanted, (self.blob_address(reference, digest),))

    def has_blob(self, reference: RegistryReference, digest: Sha256) -> bool:
        """Tell whether a repository has a blob.

        Raises:
            RegistryRefusedError, TransferError: As `manifest`.
        """
        return self._is_there(reference, f"{reference.repository}/blobs/{digest}")

    def read_blob(
        self,
        reference: RegistryReference,
        digest: Sha256,
        size: int,
        check_interrupted: Callable[[], None] = never_interrupted,
    ) -> bytes:
        """Return a small blob.

        Raises:
            RegistryMismatchError: It is not what its digest says, or too long to be read into memory.
            RegistryRefusedError, TransferError: As `manifest`.
        """
        if size > MAX_READ_BYTES:
            raise RegistryMismatchError(
                f"the blob {digest} is refused",
                cause=f"it has {size} bytes and is read into memory",
            )
        if size == 0:
            data = b""
        else:
            data = self.exchange(reference).perform(
                Call("GET", self.blob_address(reference, digest)),
                (OK,),
                lambda answer: read_all(answer, size),
                check_interrupted,
            )
        if Sha256.of(data) != digest:
            raise _other_digest(f"a blob of {reference.base}", digest, Sha256.of(data))
        return data

    def fetch_blob(
        self,
        reference: RegistryReference,
        digest: Sha256,
        size: int,
        download: "Download",
        listener: "Listener",
    ) -> "Content":
        """Fetch a blob into a download, going on from what has come of it; return what it holds.

        Raises:
            RegistryMismatchError: It is not what its digest says. Nothing of it is kept.
            RegistryRefusedError, TransferError, DiskFullError: As `transfer`.
        """
        from dis_derivations.transport.transfer import transfer
        from dis_derivations.transport.worker import Errand

        errand = Errand(
            self.exchange(reference),
            self.blob_address(reference, digest),
            None,
            size,
            is_checked=True,
            whole=size <= self.conduct.piece_bytes,
        )
        content = transfer(errand, download, listener)
        if content.sha256 != digest:
            download.remove()
            raise _other_digest(f"a blob of {reference.base}", digest, content.sha256)
        return content

    def push_blob(
        self,
        reference: RegistryReference,
        blob: Blob,
        *,
        mount_from: str | Sequence[str] = (),
        on_bytes: Callable[[int], None] = uncounted,
        check_interrupted: Callable[[], None] = never_interrupted,
    ) -> Sent:
        """Let a repository have a blob: nothing is sent that it has, or that it can take from another repository.

        Args:
            reference: Names the repository.
            blob: What it shall have.
            mount_from: Another repository of the same registry that may have it, or several, asked in this order.
            on_bytes: Called with the number of bytes of each piece that was sent.
            check_interrupted: Called now and then; raises when the user asked to stop.

        Raises:
            RegistryRefusedError: The registry refuses it.
            TransferError: It cannot be reached, or makes no sense.
        """
        if self.has_blob(reference, blob.digest):
            return "present"
        named = (mount_from,) if isinstance(mount_from, str) else mount_from
        mounting = tuple(each for each in named if each != reference.repository)
        exchange = self.exchange(reference, Scope.push(reference.repository, *mounting))
        start = reference.address(f"{reference.repository}/blobs/uploads/")
        if any(self._mounted(exchange, reference, blob.digest, each) for each in mounting):
            return "mounted"
        Upload(exchange, start, blob, self.notes, self._flight, on_bytes, check_interrupted).send()
        return "sent"

    def push_bytes(self, reference: RegistryReference, data: bytes) -> Sha256:
        """Let a repository have a blob from memory; return its digest.

        Raises:
            RegistryRefusedError, TransferError: As `push_blob`.
        """
        blob = blob_of_bytes(data)
        self.push_blob(reference, blob)
        return blob.digest

    def _mounted(
        self, exchange: Exchange, reference: RegistryReference, digest: Sha256, source: str
    ) -> bool:
        query = urlencode({"mount": digest, "from": source}, quote_via=quote)
        address = reference.address(f"{reference.repository}/blobs/uploads/", query)
        call = Call("POST", address, {}, lambda: (), 0)
        # Where it cannot be mounted an upload was begun, which nobody goes on with; registries forget those.
        try:
            status = exchange.perform(call, (_CREATED, _ACCEPTED), lambda answer: answer.status)
        except RegistryRefusedError:
            return False
        return status == _CREATED and self.has_blob(reference, digest)

    def _is_there(self, reference: RegistryReference, path: str) -> bool:
        call = Call(
            "HEAD", reference.address(path), {"Accept": ", ".join((*documents.ACCEPTED, "*/*"))}
        )
        try:
            self.exchange(reference).perform(call, (OK,), lambda _: None)
        except RegistryRefusedError as error:
            if error.is_missing:
                return False
            raise
        return True


@contextmanager
def _named(reference: RegistryReference) -> Iterator[None]:
    """Let a refusal say what was wanted as its user names it."""
    try:
        yield
    except RegistryRefusedError as error:
        raise RegistryRefusedError(
            f"{reference} cannot be had", cause=error.cause, hint=error.hint, status=error.status
        ) from error


def _other_digest(what: str, wanted: str, found: str) -> RegistryMismatchError:
    return RegistryMismatchError(
        f"{what} is not what it must be", cause=f"wanted {wanted}, found {found}"
    )
