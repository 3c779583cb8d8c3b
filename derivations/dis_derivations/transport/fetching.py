"""Files from servers into a new object of the store: each from the first of its addresses that has the right bytes."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dis_derivations.sources.local import check_arrived
from dis_derivations.sources.source import WantedFile
from dis_derivations.transport.address import Address, UnsafeAddressError
from dis_derivations.transport.client import Client
from dis_derivations.transport.errors import RefusedRequestError, TransferError
from dis_derivations.transport.transfer import Listener, transfer
from dis_derivations.transport.worker import Errand
from dis_store.digest import Digest
from dis_store.errors import DisError, MismatchError
from dis_store.writing.arrivals import take_download, take_stored
from dis_store.writing.downloads import downloading

if TYPE_CHECKING:
    from dis_store import TreeWriter, WrittenFile
    from dis_store.hashing import Content
    from dis_store.writing.downloads import Download

# Looks at a file before it is taken: its path in the tree, and where it is. Raises DisError to refuse it.
Check = Callable[[str, Path], None]


@dataclass(frozen=True)
class RemoteFile:
    """A file on servers.

    Attributes:
        wanted: Its path in the object, and what is known of it.
        addresses: Where it is; tried in this order.
        credentials: Headers for the origin of the first address alone; None for what the environment has.
        told_size: Its bytes as a server told them, to look for it in the store by; nothing that came is compared with
            it.
    """

    wanted: WantedFile
    addresses: tuple[Address, ...]
    credentials: Mapping[str, str] | None = None
    told_size: int | None = None


@dataclass(frozen=True)
class Fetcher:
    """Fetches files.

    Attributes:
        client: Who asks.
        writer: The object that they become part of.
        listener: Who follows it.
        check: Looks at each file before it becomes a part.
        note: Told of an address that was passed over, in one line.
    """

    client: Client
    writer: "TreeWriter"
    listener: Listener
    check: Check
    note: Callable[[str], None]

    def fetch(self, files: Sequence[RemoteFile]) -> "list[WrittenFile]":
        """Fetch each file, and return what was written, in the same order.

        Raises:
            MismatchError: No address has the right bytes, and one has others.
            BuildError: A file cannot be had.
            DisError: What `check` raises.
        """
        written = []
        for file in files:
            self.listener.check_interrupted()
            written.append(self._fetch_one(file))
        return written

    def _fetch_one(self, file: RemoteFile) -> "WrittenFile":
        if (stored := self._stored(file.wanted, file.told_size)) is not None:
            return stored
        failures: list[DisError] = []
        for number, address in enumerate(file.addresses):
            credentials = file.credentials if number == 0 else None
            try:
                written = self._fetch_from(file.wanted, address, credentials)
            except (
                TransferError,
                RefusedRequestError,
                UnsafeAddressError,
                MismatchError,
            ) as failure:
                failures.append(failure)
                continue
            for each in failures:
                self.note(f"{each.what}: {each.cause}; it was fetched from {address}")
            return written
        raise _all_of(failures)

    def _fetch_from(
        self, wanted: WantedFile, address: Address, credentials: Mapping[str, str] | None
    ) -> "WrittenFile":
        key = key_of(wanted, address)
        errand = Errand(
            self.client, address, credentials, wanted.size, is_checked=wanted.sha256 is not None
        )
        came = 0

        def count(amount: int) -> None:
            nonlocal came
            came += amount
            self.listener.on_bytes(amount)

        listener = Listener(count, self.listener.check_interrupted)
        with downloading(self.writer.foundation, key, self.listener.check_interrupted) as download:
            # Another process may have fetched it while this one waited.
            if not download.part.exists() and (stored := self._stored(wanted, None)) is not None:
                download.remove()
                return stored
            content = transfer(errand, download, listener)
            try:
                self._judge(wanted, address, download, content)
            except DisError:
                # Wrong from the first byte to the last, for all that is known: nothing of it is used again.
                download.remove()
                self.listener.on_bytes(-came)
                raise
            return take_download(self.writer, wanted.path, download, content)

    def _stored(self, wanted: WantedFile, told_size: int | None) -> "WrittenFile | None":
        if wanted.sha256 is None:
            return None
        size = told_size if wanted.size is None else wanted.size
        stored = take_stored(self.writer, wanted.path, wanted.sha256, size, self.listener.on_bytes)
        if stored is not None:
            check_arrived(wanted, stored, "the store")
        return stored

    def _judge(
        self, wanted: WantedFile, address: Address, download: "Download", content: "Content"
    ) -> None:
        if wanted.sha256 not in (None, content.sha256) or wanted.size not in (None, content.size):
            raise MismatchError(
                f"{address} is not the file that is wanted",
                cause=f"wanted {wanted.sha256 or f'{wanted.size} bytes'}, "
                f"found {content.sha256 if wanted.sha256 else f'{content.size} bytes'}",
                hint="name another place that has it, or accept the new one: "
                "dis lock CONFIG --update NAME",
            )
        self.check(wanted.path, download.part)


def key_of(wanted: WantedFile, address: Address) -> Digest:
    """Return what an unfinished download is kept under. A token in the address is no part of it."""
    return Digest.of(os.fsencode(f"{address} {wanted.sha256 or ''}"))


def _all_of(failures: Sequence[DisError]) -> DisError:
    """Return the one failure, or one that tells them all: other bytes weigh more than none."""
    if len(failures) == 1:
        return failures[0]
    causes = "\n".join(f"{each.what}: {each.cause}" for each in failures)
    what = f"{len(failures)} places were tried for one file, and none has it"
    hint = next((each.hint for each in failures if each.hint is not None), None)
    kind = next((type(each) for each in failures if isinstance(each, MismatchError)), None)
    return (MismatchError if kind else TransferError)(what, cause=causes, hint=hint)
