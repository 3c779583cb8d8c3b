"""Blobs on their way to a repository: several at a time, and none that it has or can take from another one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dis_derivations.distribution.workers import Stop, work_on
from dis_derivations.registry.client import BLOBS_AT_ONCE, RegistryClient
from dis_derivations.registry.reference import RegistryReference
from dis_derivations.registry.uploads import Blob
from dis_store.work_progress import Progress, counter


@dataclass(frozen=True)
class Sending:
    """Sends blobs to one repository.

    Attributes:
        client: Who sends.
        reference: Names the repository.
        mount_from: Other repositories of the same registry that may have some of them, asked in this order.
        progress: Told of the bytes.
        stop: Set when the user asks to stop.
    """

    client: RegistryClient
    reference: RegistryReference
    mount_from: Sequence[str]
    progress: Progress | None
    stop: Stop

    def lacking(self, blobs: Sequence[Blob]) -> int:
        """Return the bytes of those that the repository does not have; nothing is changed.

        Raises:
            RegistryRefusedError, TransferError: The registry refuses, or cannot be reached.
        """

        def is_there(blob: Blob) -> bool:
            self.stop.check()
            return self.client.has_blob(self.reference, blob.digest)

        there = work_on(blobs, is_there, self.stop, jobs=BLOBS_AT_ONCE)
        return sum(blob.size for blob, known in zip(blobs, there, strict=True) if not known)

    def send(self, blobs: Iterable[Blob]) -> tuple[int, int]:
        """Let the repository have blobs; return the bytes of those that were sent, and of those that it mounted.

        Raises:
            RegistryRefusedError, TransferError: The registry refuses, or cannot be reached.
            IntegrityError: A file of the store is not what its digest says.
        """
        ordered = list(blobs)
        count = counter(self.progress, sum(blob.size for blob in ordered))
        amounts: Mapping[str, list[int]] = {"present": [], "mounted": [], "sent": []}

        def send(blob: Blob) -> None:
            self.stop.check()
            outcome = self.client.push_blob(
                self.reference,
                blob,
                mount_from=self.mount_from,
                on_bytes=count,
                check_interrupted=self.stop.check,
            )
            amounts[outcome].append(blob.size)
            if outcome != "sent":
                count(blob.size)

        work_on(ordered, send, self.stop, jobs=BLOBS_AT_ONCE)
        return sum(amounts["sent"]), sum(amounts["mounted"])
