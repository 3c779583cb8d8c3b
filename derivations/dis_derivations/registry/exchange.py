"""One request to a registry until there is an answer: who asks is proved, and redirects are followed by rules."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from dis_derivations.registry.authority import Authority, Scope, login_hint
from dis_derivations.registry.errors import RegistryRefusedError, nonsense
from dis_derivations.transport import refusals
from dis_derivations.transport.address import Address, UnsafeAddressError
from dis_derivations.transport.answer import is_encoded
from dis_derivations.transport.client import (
    OK,
    OUT_OF_RANGE,
    PARTIAL,
    Answer,
    Client,
    never_interrupted,
)
from dis_derivations.transport.reach import ANYWHERE, Reach, reachable_from
from dis_derivations.transport.redirects import MAX_REDIRECTS, REDIRECTS, followed
from dis_derivations.transport.retrying import ServerBusyError, seconds_of
from dis_derivations.version import VERSION

_Result = TypeVar("_Result")
_UNAUTHORISED, _FORBIDDEN, _NOT_FOUND = 401, 403, 404
# Others may turn the request into another one.
_KEEPS_METHOD = frozenset({307, 308})
_SAFE = frozenset({"GET", "HEAD"})
_FILE = frozenset({OK, PARTIAL, OUT_OF_RANGE})


@dataclass(frozen=True)
class Call:
    """What is asked of a registry.

    Attributes:
        method: Of HTTP.
        address: In the registry, or where it sent for an upload.
        headers: Sent wherever redirects lead, so nothing secret is among them.
        body: Makes the body, from its beginning each time.
        length: The bytes of the body.
    """

    method: str
    address: Address
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Callable[[], Iterable[bytes]] | None = None
    length: int = 0


@dataclass(frozen=True)
class Exchange(Client):
    """Asks one registry, in the name of its user, for what is in one scope. Threads may share it.

    Attributes:
        authority: Proves who asks.
        scope: What is going to be done.
        home: The registry's own origin, which alone is shown the password or the token.
    """

    # Documents come whole or not at all.
    again: ClassVar[str] = "run the same command again later"

    authority: Authority
    scope: Scope
    home: tuple[str, str, int]

    def ask(
        self,
        method: str,
        address: Address,
        headers: Mapping[str, str] | None = None,
        credentials: Mapping[str, str] | None = None,
    ) -> Answer:
        """Return an answer that has a file, a part of it, or no such part: as `Client.ask`, in the user's name.

        Args:
            method: As for `Client.ask`.
            address: As for `Client.ask`.
            headers: As for `Client.ask`.
            credentials: Headers for the origin of `address` alone, in the place of the user's password or token; None
                for what the user has for the registry.

        Raises:
            RegistryRefusedError: The registry refuses.
            UnsafeAddressError, TransferError, ServerBusyError, urllib3.exceptions.HTTPError: As `Client.ask`.
        """
        answer = self.send(Call(method, address, headers or {}), credentials)
        return self.accept(answer, address, _FILE)

    def accept(self, answer: Answer, asked: Address, statuses: Iterable[int]) -> Answer:
        """Return an answer with one of some statuses; one with another is an error, and closed.

        Raises:
            ServerBusyError: The server may say something else a little later.
            RegistryRefusedError: It refuses.
            RegistryError: Its body is made from what is wanted, as by compression.
        """
        status, headers = answer.status, answer.headers
        if status in statuses:
            if is_encoded(headers):
                answer.close()
                raise nonsense(answer.address, "sends what is asked for in another encoding")
            return answer
        answer.close()
        if refusals.is_transient(status):
            raise ServerBusyError(status, seconds_of(headers.get("Retry-After")))
        raise self.refused(asked, status)

    def refused(self, asked: Address, status: int) -> RegistryRefusedError:
        """Return the error for an answer. Nothing that the server wrote is quoted: it may repeat a secret."""
        place = asked.place
        hint = None
        if status in (_UNAUTHORISED, _FORBIDDEN):
            cause = f"{place} does not allow it to who asks ({status})"
            hint = login_hint(place, self.authority.withheld)
        elif status == _NOT_FOUND:
            cause = f"{place} says that it is not there (404)"
        else:
            cause = f"{place} answers with status {status}"
        return RegistryRefusedError(f"{asked} is refused", cause=cause, hint=hint, status=status)

    def send(self, call: Call, credentials: Mapping[str, str] | None = None) -> Answer:
        """Send a request and follow redirects; a refused password or token is renewed once.

        Args:
            call: What is asked.
            credentials: Headers for the origin of its address alone, in the place of the user's password or token. They
                are not renewed.

        Raises:
            UnsafeAddressError: A redirect leads where it must not.
            RegistryError: It leads in a circle, or changes what is asked.
            urllib3.exceptions.HTTPError: The connection broke.
        """
        if credentials is not None:
            return self._follow(call, credentials)[0]
        own = call.address.origin == self.home
        secret = self.authority.headers(self.scope) if own else {}
        answer, reach = self._follow(call, secret)
        if not self._may_try_again(answer, reach, secret):
            return answer
        answer.close()
        return self._follow(call, self.authority.headers(self.scope))[0]

    def _may_try_again(self, answer: Answer, reach: Reach, secret: Mapping[str, str]) -> bool:
        """Tell whether a refusal said how to prove who asks, otherwise than was tried."""
        if answer.status != _UNAUTHORISED or answer.address.origin != self.home:
            return False
        try:
            return self.authority.learn(answer.address, reach, answer.headers, secret, self.scope)
        except BaseException:
            answer.close()
            raise

    def _follow(self, call: Call, secret: Mapping[str, str]) -> tuple[Answer, Reach]:
        current, allowed = call.address, ANYWHERE
        for _ in range(MAX_REDIRECTS + 1):
            sent = {
                "User-Agent": f"dis/{VERSION}",
                "Accept-Encoding": "identity",
                **call.headers,
                **secret,
            }
            if call.body is not None:
                sent["Content-Length"] = str(call.length)
            body = None if call.body is None else call.body()
            response, reach = self.connections.send(call.method, current, sent, allowed, body)
            answer = Answer(response.status, response.headers, current, response)
            location = response.headers.get("Location")
            if response.status not in REDIRECTS or location is None:
                return answer, reach
            answer.close()
            if call.method not in _SAFE and response.status not in _KEEPS_METHOD:
                raise nonsense(current, f"answers {call.method} with status {response.status}")
            following = followed(call.address, current, location)
            if following.origin != current.origin:
                # Once elsewhere, nothing secret is sent any more, wherever that leads.
                secret = {}
            current, allowed = following, reachable_from(reach)
        raise nonsense(call.address, f"redirects more than {MAX_REDIRECTS} times")

    def perform(
        self,
        call: Call,
        statuses: Iterable[int],
        read: Callable[[Answer], _Result],
        check_interrupted: Callable[[], None] = never_interrupted,
    ) -> _Result:
        """Return what `read` makes of an answer with one of some statuses; all of it again when a connection breaks.

        Raises:
            TransferError: It did not work out.
            RegistryRefusedError: The registry refuses.
        """

        def action() -> _Result:
            with self.accept(self.send(call), call.address, statuses) as answer:
                return read(answer)

        return self.persist(call.address, action, check_interrupted)


def read_all(answer: Answer, limit: int) -> bytes:
    """Return the body of an answer.

    Raises:
        RegistryError: It is longer than `limit` bytes, or shorter than was said.
    """
    pieces, length = [], 0
    while piece := answer.read(1 << 18):
        length += len(piece)
        if length > limit:
            raise nonsense(answer.address, f"sends more than {limit} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def following_upload(exchange: Exchange, asked: Address, answer: Answer) -> Address:
    """Return where an upload goes on, as `Location` says.

    Raises:
        RegistryError: It does not say.
        UnsafeAddressError: It leads where it must not.
    """
    location = answer.headers.get("Location")
    if location is None:
        raise nonsense(asked, "does not say where the upload goes on")
    following = followed(asked, answer.address, location)
    if following.origin != exchange.home:
        # What is sent elsewhere goes without a password. A registry whose own address is another one behind a proxy
        # says so here, too.
        raise UnsafeAddressError(
            f"nothing is sent to {following.place}",
            cause=f"{asked.place} leads an upload to another server",
        )
    return following


class Watch:
    """Sees whether an upload gets on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = time.monotonic()
        self._over = False
        self.sent = 0

    def end(self) -> None:
        """Let nothing more be sent: nobody waits for it."""
        self._over = True

    def count(self, amount: int) -> None:
        """Note that so many bytes were sent.

        Raises:
            ConnectionError: Nobody waits for it any more.
        """
        with self._lock:
            if self._over:
                raise ConnectionAbortedError
            self.sent += amount
            self._last = time.monotonic()

    def idle_seconds(self) -> float:
        """Return for how long nothing was sent."""
        with self._lock:
            return time.monotonic() - self._last
