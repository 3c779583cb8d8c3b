"""A thread that fetches one range of a file after the other, and comes back when a connection breaks."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import urllib3.exceptions as errors

from dis_derivations.transport import refusals
from dis_derivations.transport.address import Address
from dis_derivations.transport.answer import length_of, range_of, version_of
from dis_derivations.transport.client import (
    OK,
    OUT_OF_RANGE,
    PARTIAL,
    Answer,
    Client,
)
from dis_derivations.transport.errors import WrongSizeError
from dis_derivations.transport.pieces import ChangedError, Piece, Pieces, StaleError
from dis_derivations.transport.retrying import ServerBusyError, Trouble, gave_up

_CHUNK = 1 << 18


class UnmarkedError(Exception):
    """The server gives parts of a file and no mark of their version, so they may not fit together."""


@dataclass(frozen=True)
class Errand:
    """What is fetched, from where.

    Attributes:
        client: Who asks.
        address: What is asked for.
        credentials: For the origin of the address; None for those of the environment.
        size: The bytes that the file must have; None where that is not known.
        is_checked: Whether the digest of the file is known, so that parts which do not fit are found out.
        whole: Whether the file is asked for in one piece.
    """

    client: Client
    address: Address
    credentials: Mapping[str, str] | None
    size: int | None
    is_checked: bool
    whole: bool = False


class Worker:
    """One thread.

    Args:
        errand: What is fetched.
        pieces: Where it goes.
        slot: Its number, which no other thread of the transfer has.
        on_piece: Called after each range, before the next one is begun, and once it is known which version comes.
        on_end: Called once when the thread ends, with what it ended with.
    """

    def __init__(
        self,
        errand: Errand,
        pieces: Pieces,
        slot: int,
        on_piece: Callable[[], None],
        on_end: "Callable[[Worker, BaseException | None], None]",
    ) -> None:
        self._errand = errand
        self._pieces = pieces
        self._slot = slot
        self._on_piece = on_piece
        self._on_end = on_end
        self._conduct = errand.client.conduct
        self._stopped = threading.Event()
        self._piece: Piece | None = None
        self._answer: Answer | None = None
        self._since = time.monotonic()
        self._mark = 0
        self._thread = threading.Thread(target=self._run, name="dis-transfer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Let it end soon, wherever it is."""
        self._stopped.set()
        if (answer := self._answer) is not None:
            answer.abandon()

    def join(self, seconds: float) -> None:
        """Wait for its end, and no longer."""
        self._thread.join(seconds)

    def hangs(self) -> bool:
        """Tell whether nothing comes, or as good as nothing; called now and then."""
        piece, now = self._piece, time.monotonic()
        if piece is None:
            return False
        if self._answer is None:
            return now - self._since > self._conduct.answer_seconds
        if now - self._since < self._conduct.slow_seconds:
            return False
        slow = piece.position - self._mark < self._conduct.slow_bytes
        self._since, self._mark = now, piece.position
        return slow

    def abandon(self) -> None:
        """Give up on it: another one may have its range."""
        if self._piece is not None:
            self._pieces.give_up(self._piece)
        self.stop()

    def _run(self) -> None:
        try:
            while (
                not self._stopped.is_set() and (piece := self._pieces.claim(self._slot)) is not None
            ):
                self._fetch(piece)
                self._on_piece()
        except BaseException as error:  # noqa: BLE001 - the transfer decides what it means
            if self._piece is not None:
                self._pieces.give_up(self._piece)
            self._on_end(self, error)
        else:
            self._on_end(self, None)

    def _fetch(self, piece: Piece) -> None:
        self._piece = piece
        trouble = Trouble(self._conduct)
        while piece.wanted:
            before = piece.position
            self._since = time.monotonic()
            try:
                self._attempt(piece)
            except (ServerBusyError, errors.HTTPError, TimeoutError, ConnectionError) as error:
                if self._stopped.is_set():
                    raise StaleError from None
                came = piece.position - before
                delay = trouble.delay_after(error, came)
                if delay is None:
                    raise gave_up(self._errand.address, error) from None
                if self._cannot_go_on():
                    # Nothing of the file counts, so it begins anew, and that is no progress.
                    raise UnmarkedError from None
                self._piece = None  # a pause is no hang
                if self._stopped.wait(delay):
                    raise StaleError from None
                self._piece = piece
        self._piece = None

    def _cannot_go_on(self) -> bool:
        version = self._pieces.version
        if version is None:
            return False
        return version.size is None or not (version.condition or self._errand.is_checked)

    def _attempt(self, piece: Piece) -> None:
        if piece.is_whole:  # it broke after the last byte
            self._pieces.finish(piece)
            return
        with self._errand.client.ask(
            "GET", self._errand.address, self._headers(piece), self._errand.credentials
        ) as answer:
            self._since, self._mark, self._answer = time.monotonic(), piece.position, answer
            try:
                if self._stopped.is_set():
                    raise StaleError
                self._take(piece, answer)
            finally:
                self._answer = None

    def _headers(self, piece: Piece) -> dict[str, str]:
        version = self._pieces.version
        if self._errand.whole and piece.position == 0:
            return {}
        last = "" if piece.end is None else piece.end - 1
        headers = {"Range": f"bytes={piece.position}-{last}"}
        if version is not None and version.condition is not None:
            headers["If-Range"] = version.condition
        return headers

    def _take(self, piece: Piece, answer: Answer) -> None:
        if answer.status == OUT_OF_RANGE:
            self._take_nothing(piece, answer)
        elif answer.status == PARTIAL:
            self._take_part(piece, answer)
        elif answer.status == OK and piece.position == 0 and self._pieces.version is None:
            self._take_all(piece, answer)
        else:
            raise ChangedError  # it gives no part of the version that was begun with

    def _take_nothing(self, piece: Piece, answer: Answer) -> None:
        found = range_of(answer.headers)
        if piece.position or found is None or found[2] != 0:
            raise ChangedError
        self._begin(piece, answer, 0, 0)
        self._pieces.finish(piece)

    def _take_part(self, piece: Piece, answer: Answer) -> None:
        found = range_of(answer.headers)
        place = self._errand.address
        if found is None or found[2] is None:
            refusals.nonsense(place, "sends a part of the file and does not say which")
        start, end, size = found[0], found[1], found[2]
        asked = size if piece.end is None else min(piece.end, size)
        if start != piece.position or end != asked:
            refusals.nonsense(place, "sends another part of the file than it was asked for")
        if length_of(answer.headers) not in (None, end - start):
            refusals.nonsense(place, "says two lengths of one part of the file")
        is_marked = version_of(answer.headers, size).condition is not None
        if end < size and not (is_marked or self._errand.is_checked):
            raise UnmarkedError
        self._begin(piece, answer, size, end)
        self._receive(piece, answer, end)

    def _take_all(self, piece: Piece, answer: Answer) -> None:
        size = length_of(answer.headers)
        told = size is not None or answer.headers.get("Transfer-Encoding") is not None
        if not told and not self._errand.is_checked:
            # The end of the connection could be the end of the file, or an accident.
            refusals.nonsense(self._errand.address, "does not say how long the file is")
        self._begin(piece, answer, size, size)
        self._receive(piece, answer, size)

    def _begin(self, piece: Piece, answer: Answer, size: int | None, end: int | None) -> None:
        wanted = self._errand.size
        if wanted is not None and size is not None and size != wanted:
            raise WrongSizeError(self._errand.address, wanted, size)
        is_first = self._pieces.version is None
        self._pieces.adopt(piece, version_of(answer.headers, size), end)
        if is_first:
            self._on_piece()

    def _receive(self, piece: Piece, answer: Answer, end: int | None) -> None:
        wanted = self._errand.size
        while end is None or piece.position < end:
            data = answer.read(_CHUNK if end is None else min(_CHUNK, end - piece.position))
            if not data:
                break
            self._pieces.write(piece, data)
            if end is None and wanted is not None and piece.position > wanted:
                raise WrongSizeError(self._errand.address, wanted, None)
        if end is not None and piece.position < end:
            raise errors.ProtocolError
        self._pieces.finish(piece, at_end_of_file=end is None)
