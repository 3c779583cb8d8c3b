"""One request after the other until there is an answer: redirects are followed by rules of our own."""

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

import urllib3.exceptions as errors

from dis_derivations.transport import refusals
from dis_derivations.transport.address import Address
from dis_derivations.transport.answer import (
    Version,
    is_encoded,
    length_of,
    range_of,
    version_of,
)
from dis_derivations.transport.conduct import Conduct
from dis_derivations.transport.connections import Connections
from dis_derivations.transport.credentials import authorization
from dis_derivations.transport.errors import RefusedRequestError
from dis_derivations.transport.patience import bounded
from dis_derivations.transport.reach import ANYWHERE, reachable_from
from dis_derivations.transport.redirects import MAX_REDIRECTS, REDIRECTS, followed
from dis_derivations.transport.retrying import (
    LATER,
    ServerBusyError,
    Trouble,
    gave_up,
    seconds_of,
)
from dis_derivations.version import VERSION

if TYPE_CHECKING:
    import urllib3

_Result = TypeVar("_Result")
OK, PARTIAL, OUT_OF_RANGE = 200, 206, 416
_ANSWERS = frozenset({OK, PARTIAL, OUT_OF_RANGE})
# Some servers sign an address for GET alone.
_NO_HEAD = frozenset({400, 403, 405, 501})
_SHORT_BODY = 4096
_CHUNK = 1 << 18


def never_interrupted() -> None:
    """Let the work go on."""


@dataclass(frozen=True)
class Answer:
    """What a server answered: its body is unread. A context manager: it is closed at the end.

    Attributes:
        status: 200, 206 or 416.
        headers: As the server wrote them.
        address: Who answered, after redirects.
    """

    status: int
    headers: Mapping[str, str]
    address: Address
    _response: "urllib3.BaseHTTPResponse"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _let_go(self._response)

    def close(self) -> None:
        """Keep the connection where the rest of the body is short, else close it."""
        _let_go(self._response)

    def read(self, amount: int) -> bytes:
        """Return at most `amount` bytes as soon as there are any; nothing at the end.

        Raises:
            urllib3.exceptions.HTTPError: The connection broke, or the body is shorter than was said.
        """
        return self._response.read1(amount)

    def abandon(self) -> None:
        """Let a thread that waits for the body find its end."""
        with contextlib.suppress(ValueError, RuntimeError, OSError, AttributeError):
            self._response.shutdown()


@dataclass(frozen=True)
class Client:
    """Asks servers for files. Threads may share it.

    Attributes:
        connections: Where it gets connections from.
        conduct: Its bounds.
        environment: Where passwords and proxies are named.
        again: What is said to help when a server is busy or breaks off.
    """

    again: ClassVar[str] = LATER

    connections: Connections
    conduct: Conduct
    environment: Mapping[str, str]

    @classmethod
    def of(
        cls, conduct: Conduct | None = None, environment: Mapping[str, str] | None = None
    ) -> "Client":
        """Return a client for this process's environment, unless another is given."""
        chosen = conduct or Conduct()
        variables = dict(os.environ if environment is None else environment)
        return cls(Connections(chosen, variables), chosen, variables)

    def ask(
        self,
        method: str,
        address: Address,
        headers: Mapping[str, str] | None = None,
        credentials: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request, follow redirects, and return an answer that has the file, a part of it, or no such part.

        Args:
            method: `GET` or `HEAD`.
            address: What is asked for.
            headers: Sent wherever redirects lead, so nothing secret is among them.
            credentials: Headers for the origin of `address` alone; None for what ~/.netrc or the address has.

        Raises:
            UnsafeAddressError: A redirect leads where it must not.
            RefusedRequestError: There is no file for who asks.
            TransferError: The answer makes no sense.
            ServerBusyError: Perhaps later.
            urllib3.exceptions.HTTPError: The connection broke.
        """
        secret = authorization(address, self.environment) if credentials is None else credentials
        current, allowed = address, ANYWHERE
        for _ in range(MAX_REDIRECTS + 1):
            sent = {
                "User-Agent": f"dis/{VERSION}",
                "Accept-Encoding": "identity",
                **(headers or {}),
                **secret,
            }
            response, reach = self.connections.send(method, current, sent, allowed)
            location = response.headers.get("Location")
            if response.status not in REDIRECTS or location is None:
                return _judged(address, current, response)
            _let_go(response)
            following = followed(address, current, location)
            if following.origin != current.origin:
                # Once elsewhere, nothing secret is sent any more, wherever that leads.
                secret = {}
            current, allowed = following, reachable_from(reach)
        return refusals.nonsense(address, f"redirects more than {MAX_REDIRECTS} times")

    def persist(
        self,
        address: Address,
        action: Callable[[], _Result],
        check_interrupted: Callable[[], None] = never_interrupted,
    ) -> _Result:
        """Return what `action` does, tried again when a connection breaks or a server is busy.

        Raises:
            TransferError: It did not work out; and whatever else `action` raises.
        """
        trouble = Trouble(self.conduct)
        while True:
            try:
                return bounded(action, self.conduct.answer_seconds, check_interrupted)
            except (ServerBusyError, errors.HTTPError, OSError) as error:
                delay = trouble.delay_after(error)
                if delay is None:
                    raise gave_up(address, error, hint=self.again) from None
            bounded_sleep(delay, check_interrupted)

    def look(
        self,
        address: Address,
        credentials: Mapping[str, str] | None = None,
        check_interrupted: Callable[[], None] = never_interrupted,
    ) -> Version:
        """Return size and version of a file without fetching it, as far as the server tells.

        Raises:
            UnsafeAddressError, RefusedRequestError, TransferError: As `ask`.
        """

        def head() -> Version:
            with self.ask("HEAD", address, None, credentials) as answer:
                return version_of(answer.headers, length_of(answer.headers))

        def first_byte() -> Version:
            with self.ask("GET", address, {"Range": "bytes=0-0"}, credentials) as answer:
                if answer.status == OK:
                    return version_of(answer.headers, length_of(answer.headers))
                found = range_of(answer.headers)
                return version_of(answer.headers, None if found is None else found[2])

        try:
            return self.persist(address, head, check_interrupted)
        except RefusedRequestError as error:
            if error.status not in _NO_HEAD:
                raise
        return self.persist(address, first_byte, check_interrupted)

    def read(
        self,
        address: Address,
        limit: int,
        credentials: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return a short document, such as a listing, whole.

        Args:
            address: Where it is.
            limit: The most bytes that it may have.
            credentials: As for `ask`.
            headers: As for `ask`.

        Raises:
            UnsafeAddressError, RefusedRequestError, TransferError: As `ask`, or it is too long.
        """

        def action() -> bytes:
            pieces, length = [], 0
            with self.ask("GET", address, headers, credentials) as answer:
                while piece := answer.read(_CHUNK):
                    length += len(piece)
                    if length > limit:
                        refusals.nonsense(address, f"sends more than {limit} bytes")
                    pieces.append(piece)
            return b"".join(pieces)

        return self.persist(address, action)


def bounded_sleep(seconds: float, check_interrupted: Callable[[], None]) -> None:
    """Wait, unless the user asks to stop."""
    import threading

    bounded(lambda: threading.Event().wait(seconds), seconds + 60, check_interrupted)


def _judged(asked: Address, current: Address, response: "urllib3.BaseHTTPResponse") -> Answer:
    status, headers = response.status, response.headers
    if status in _ANSWERS:
        if is_encoded(headers):
            response.close()
            refusals.nonsense(current, "sends the file in another encoding than its own")
        return Answer(status, headers, current, response)
    _let_go(response)
    if refusals.is_transient(status):
        raise ServerBusyError(status, seconds_of(headers.get("Retry-After")))
    raise refusals.refused(asked, status, current)


def _let_go(response: "urllib3.BaseHTTPResponse") -> None:
    """Keep the connection where the rest of the body is short or read already; else close it."""
    remaining = getattr(response, "length_remaining", None)
    try:
        if remaining is not None and remaining <= _SHORT_BODY:
            response.read(_SHORT_BODY, decode_content=False)
            response.release_conn()
            return
    except (errors.HTTPError, OSError):
        pass
    response.close()
