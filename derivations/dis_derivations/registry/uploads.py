"""One blob on its way to a registry: whole in one request, or in chunks that a later process can go on from."""

import queue
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import urllib3.exceptions as errors

from dis_derivations.registry.errors import RegistryError, RegistryRefusedError, nonsense
from dis_derivations.registry.exchange import Call, Exchange, Watch, following_upload
from dis_derivations.registry.flight import Flight
from dis_derivations.registry.upload_notes import UploadNotes
from dis_derivations.transport.address import Address, UnsafeAddressError
from dis_derivations.transport.client import Answer
from dis_derivations.transport.retrying import ServerBusyError, Trouble, gave_up
from dis_store.digest import Sha256

_Result = TypeVar("_Result")
WHOLE_BYTES = 64 << 20
"""What goes in one request everywhere, and all that is on its way to a registry at a time: a kill costs no more."""
CHUNK_BYTES = 16 << 20
"""What one request carries of a longer blob where a registry takes chunks; several blobs are sent at a time."""
_PIECE = 1 << 18
_CREATED, _ACCEPTED, _NO_CONTENT = 201, 202, 204
_SECONDS_BETWEEN_LOOKS = 0.1
_HAS = re.compile(r"(?:bytes=)?0-([0-9]{1,18})")
# After the last byte a registry may copy the whole blob to its place.
_CLOSING_SECONDS = 600.0
# They take one request for a blob, or chunks of a size of their own (see docs/internals/formats/registry.md).
_WHOLE_ONLY = (
    "ghcr.io",
    "docker.io",
    "quay.io",
    "gcr.io",
    "pkg.dev",
    "amazonaws.com",
    "azurecr.io",
    "registry.gitlab.com",
)
Interrupted = Callable[[], None]
Counted = Callable[[int], None]


@dataclass(frozen=True)
class Blob:
    """Bytes that a registry shall have.

    Attributes:
        digest: Of all of them.
        size: How many there are.
        read: Yields those from a position to before another, in pieces of at most 256 KiB.
    """

    digest: Sha256
    size: int
    read: Callable[[int, int], Iterable[bytes]]


def blob_of_bytes(data: bytes) -> Blob:
    """Return bytes in memory as a blob."""
    return Blob(Sha256.of(data), len(data), lambda start, end: [data[start:end]])


def blob_of_file(path: Path, digest: Sha256, size: int, offset: int = 0) -> Blob:
    """Return a file, or its bytes from a position on, as a blob.

    The registry itself finds out if they are not what their digest says.
    """

    def read(start: int, end: int) -> Iterator[bytes]:
        with path.open("rb", buffering=0) as file:
            file.seek(offset + start)
            left = end - start
            while left and (piece := file.read(min(left, _PIECE))):
                left -= len(piece)
                yield piece
        if left:
            raise RegistryError(f"{path} cannot be sent", cause="it is shorter than it was")

    return Blob(digest, size, read)


@dataclass(frozen=True)
class Upload:
    """Sends one blob.

    Attributes:
        exchange: Asks the registry, for pushing.
        start: Where uploads begin: `…/blobs/uploads/`.
        blob: What is sent.
        notes: Where it is written down how far it came; None where nothing is.
        flight: Bounds what is on its way, of all uploads together.
        on_bytes: Called with the number of bytes of each piece that was sent, a negative one for those that do not
            count after all.
        check_interrupted: Called now and then; raises when the user asked to stop.
    """

    exchange: Exchange
    start: Address
    blob: Blob
    notes: UploadNotes | None
    flight: Flight
    on_bytes: Counted
    check_interrupted: Interrupted

    def send(self) -> None:
        """Send the blob.

        Raises:
            RegistryRefusedError: The registry refuses it.
            TransferError: It did not work out; what it took is written down.
        """
        trouble = Trouble(self.exchange.conduct)
        chunked = self.blob.size > WHOLE_BYTES and not _is_whole_only(self.start.host)
        while True:
            told = _Tally(self.on_bytes)
            try:
                if not chunked:
                    self._send_whole(told)
                    return
                if self._send_chunks(told):
                    return
                chunked = False
            except (ServerBusyError, errors.HTTPError, TimeoutError, ConnectionError) as error:
                delay = trouble.delay_after(error, told.kept)
                if delay is None:
                    raise gave_up(self.start, error) from None
                told.take_back()
                self._pause(delay)
            else:
                told.take_back()

    def _pause(self, seconds: float) -> None:
        from dis_derivations.transport.client import bounded_sleep

        bounded_sleep(seconds, self.check_interrupted)

    def _begin(self) -> Address:
        call = Call("POST", self.start, {"Content-Type": "application/octet-stream"}, lambda: (), 0)
        return self._answered(call, (_ACCEPTED,), Watch(), self._location(self.start))

    def _location(self, asked: Address) -> Callable[[Answer], Address]:
        return lambda answer: following_upload(self.exchange, asked, answer)

    def _send_whole(self, told: "_Tally") -> None:
        self._close(self._begin(), 0, told)

    def _close(self, place: Address, start: int, told: "_Tally") -> None:
        """Send what is left from `start` on, and end the upload."""
        digest = f"digest={quote(self.blob.digest, safe='')}"
        query = "&".join(part for part in (place.query, digest) if part)
        target = Address(place.scheme, place.host, place.port, place.path, query)
        self._put("PUT", target, (_CREATED,), start, self.blob.size, told, lambda _: None)

    def _send_chunks(self, told: "_Tally") -> bool:
        """Send the blob in chunks; tell whether the registry takes it so."""
        place, position = self._resumed()
        begun_at = position
        told.keep(position)
        while self.blob.size - position > CHUNK_BYTES:
            end = position + CHUNK_BYTES
            try:
                place = self._put(
                    "PATCH", place, (_ACCEPTED,), position, end, told, self._location(place)
                )
            except RegistryRefusedError:
                self._forget()
                if position == begun_at == 0:
                    return False
                raise
            position = end
            told.keep(0)
            if self.notes is not None:
                self.notes.write(self.start, self.blob.digest, place, position)
        try:
            self._close(place, position, told)
        except RegistryRefusedError:
            # What it had was not what it took, or it forgot it: the next try begins anew.
            self._forget()
            raise
        self._forget()
        return True

    def _forget(self) -> None:
        if self.notes is not None:
            self.notes.forget(self.start, self.blob.digest)

    def _resumed(self) -> tuple[Address, int]:
        """Return where an upload goes on: the one that is written down if the registry still has it, else a new one."""
        noted = None if self.notes is None else self.notes.read(self.start, self.blob.digest)
        if noted is not None:
            place, position = noted
            try:
                # Nothing is believed of what the file says but the place, which must be the registry's own.
                if place.origin == self.exchange.home and position > 0:
                    return self._ask_status(place)
            except (RegistryRefusedError, UnsafeAddressError, RegistryError):
                self._forget()
        return self._begin(), 0

    def _ask_status(self, place: Address) -> tuple[Address, int]:
        """Return where an upload goes on, and how much of it the registry has, which may be part of a chunk.

        Raises:
            RegistryRefusedError: It has forgotten it.
            RegistryError: It does not say how much, or more than there is.
        """

        def read(answer: Answer) -> tuple[Address, int]:
            match = _HAS.fullmatch(answer.headers.get("Range", "").strip())
            position = int(match[1]) + 1 if match else 0
            # "0-0" is one byte, or none.
            if not 1 < position < self.blob.size:
                raise nonsense(place, "does not say how much of an upload it has")
            return following_upload(self.exchange, place, answer), position

        return self._answered(Call("GET", place), (_NO_CONTENT,), Watch(), read)

    def _put(
        self,
        method: str,
        place: Address,
        statuses: tuple[int, ...],
        start: int,
        end: int,
        told: "_Tally",
        read: Callable[[Answer], _Result],
    ) -> _Result:
        land = self.flight.board(end - start, self.check_interrupted)
        watch = Watch()

        def body() -> Iterator[bytes]:
            for piece in self.blob.read(start, end):
                watch.count(len(piece))
                told.count(len(piece))
                yield piece
            land()

        headers = {"Content-Type": "application/octet-stream"}
        if method == "PATCH":
            headers["Content-Range"] = f"{start}-{end - 1}"
        call = Call(method, place, headers, body, end - start)
        try:
            return self._answered(call, statuses, watch, read)
        finally:
            land()

    def _answered(
        self,
        call: Call,
        statuses: tuple[int, ...],
        watch: Watch,
        read: Callable[[Answer], _Result],
    ) -> _Result:
        """Return what `read` makes of the answer; give up when nothing gets on."""
        exchange = self.exchange

        def action() -> _Result:
            with exchange.accept(exchange.send(call), call.address, statuses) as answer:
                return read(answer)

        conduct = exchange.conduct

        def is_over() -> bool:
            limit = (
                _CLOSING_SECONDS
                if call.length and watch.sent >= call.length
                else conduct.answer_seconds
            )
            return watch.idle_seconds() > limit

        try:
            return _watched(action, is_over, self.check_interrupted)
        finally:
            watch.end()


def _watched(
    action: Callable[[], _Result], is_over: Callable[[], bool], check_interrupted: Interrupted
) -> _Result:
    """Return what `action` returns; one that gets nowhere is left to itself.

    Raises:
        TimeoutError: It gets nowhere.
    """
    outcome: queue.SimpleQueue[tuple[bool, object]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((True, action()))
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            outcome.put((False, error))

    threading.Thread(target=run, name="dis-upload", daemon=True).start()
    while not is_over():
        try:
            good, value = outcome.get(timeout=_SECONDS_BETWEEN_LOOKS)
        except queue.Empty:
            check_interrupted()
            continue
        if not good:
            raise value  # type: ignore[misc]
        return value  # type: ignore[return-value]
    raise TimeoutError


class _Tally:
    """Tells of bytes, and takes back those that did not count."""

    def __init__(self, on_bytes: Counted) -> None:
        self._on_bytes = on_bytes
        self._open = 0
        self.kept = 0

    def count(self, amount: int) -> None:
        self._open += amount
        self._on_bytes(amount)

    def keep(self, further: int) -> None:
        """Note that what was told counts, and tell of more that needs not be sent."""
        self.kept += self._open
        self._open = 0
        if further:
            self._on_bytes(further)

    def take_back(self) -> None:
        if self._open:
            self._on_bytes(-self._open)
            self._open = 0


def _is_whole_only(host: str) -> bool:
    return any(host == each or host.endswith(f".{each}") for each in _WHOLE_ONLY)
