"""One request to a server: sent once where it does work, again where it only reads, and never to anybody else."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import urllib3.exceptions as errors

from dis_derivations.engines.openai_compatible.place import Place, key_hint, server_place
from dis_derivations.transport import refusals
from dis_derivations.transport.address import Address
from dis_derivations.transport.answer import is_encoded
from dis_derivations.transport.client import OK, bounded_sleep
from dis_derivations.transport.conduct import Conduct
from dis_derivations.transport.connections import Connections
from dis_derivations.transport.errors import GONE, NOT_FOUND
from dis_derivations.transport.patience import bounded
from dis_derivations.transport.reach import ANYWHERE
from dis_derivations.transport.redirects import REDIRECTS
from dis_derivations.transport.retrying import ServerBusyError, Trouble, seconds_of
from dis_derivations.version import VERSION
from dis_store import canonical_json, strict_json
from dis_store.errors import BuildError

if TYPE_CHECKING:
    import urllib3

_Result = TypeVar("_Result")
_UNAUTHORISED, _FORBIDDEN = 401, 403
_METHOD_NOT_ALLOWED, _NOT_IMPLEMENTED = 405, 501
# With these a server says that it did nothing; others may come from between, after it has begun.
_TURNED_AWAY = frozenset({429, 503})
_NOT_OFFERED = frozenset({NOT_FOUND, GONE, _METHOD_NOT_ALLOWED, _NOT_IMPLEMENTED})
_READ_SECONDS = 60.0
_READ_BYTES = 4 << 20
_REASON_BYTES = 16 << 10
_LONGEST_REASON = 300
_CHUNK = 1 << 18
AGAIN = "see what became of the server, and run the same command again"


class _RefusedError(Exception):
    """A server's refusal, in words."""


@dataclass(frozen=True)
class Server:
    """Asks one server. Redirects are not followed, and each request has a connection of its own.

    Attributes:
        place: Where it is.
        patience: After how many seconds without an answer a completion is given up.
        check: Called while waiting; raises to interrupt.
        conduct: How often reading is tried again, and how soon.
    """

    place: Place
    patience: float
    check: Callable[[], None]
    conduct: Conduct = field(default_factory=Conduct)

    @classmethod
    def at(cls, base_url: str, patience: float, check: Callable[[], None]) -> "Server":
        """Return what asks the server of a manifest, with the key that this process's environment has for it.

        Raises:
            InvalidInputError: As `server_place`.
        """
        return cls(server_place(base_url, os.environ), patience, check)

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.place.root.place

    @cached_property
    def _reading(self) -> Connections:
        return Connections(self.conduct, os.environ)

    @cached_property
    def _completing(self) -> Connections:
        return Connections(replace(self.conduct, silence_seconds=self.patience), os.environ)

    def read(self, path: str, query: str = "") -> Any:
        """Return a document that the server has; None where it does not offer it. Asked again where it is not had.

        Raises:
            BuildError: It cannot be had, or is none.
        """
        address = self.place.below(path, query)
        trouble = Trouble(self.conduct)
        while True:
            try:
                data = self._within(_READ_SECONDS, lambda: self._get(address))
                break
            except (ServerBusyError, errors.HTTPError, OSError) as error:
                if (delay := trouble.delay_after(error)) is None:
                    raise self._failed(f"{address} cannot be read", error) from None
            except _RefusedError as refusal:
                raise self._refused(f"{address} cannot be read", refusal) from None
            bounded_sleep(delay, self.check)
        return None if data is None else self._document(data, address)

    def complete(self, document: Mapping[str, Any], limit: int, what: str) -> Any:
        """Return the answer to `v1/completions`.

        It is sent again only where the server cannot have begun with it: where there was no connection, or where it
        said that it is busy.

        Args:
            document: What is asked.
            limit: The most bytes that the answer may have.
            what: Whom messages are about.

        Raises:
            BuildError: There is no answer, or none that can be read.
        """
        address = self.place.below("v1/completions")
        body = canonical_json.encode(dict(document))
        trouble = Trouble(self.conduct)
        said = f"{what} has no answer from the server {self.name}"
        while True:
            try:
                data = self._within(self.patience, lambda: self._post(address, body, limit))
                return self._document(data, address)
            except (
                ServerBusyError,
                errors.NewConnectionError,
                errors.ConnectTimeoutError,
            ) as error:
                if (delay := trouble.delay_after(error)) is None:
                    raise self._failed(said, error) from None
            except (errors.HTTPError, OSError) as error:
                # It may have been received, and is not sent a second time.
                raise self._failed(said, error) from None
            except _RefusedError as refusal:
                raise self._refused(said, refusal) from None
            bounded_sleep(delay, self.check)

    def _get(self, address: Address) -> bytes | None:
        response = self._send("GET", address)
        try:
            if response.status in _NOT_OFFERED:
                return None
            if refusals.is_transient(response.status):
                raise self._busy(response)
            return self._body(response, _READ_BYTES)
        finally:
            response.close()

    def _post(self, address: Address, body: bytes, limit: int) -> bytes:
        response = self._send("POST", address, body)
        try:
            if response.status in _TURNED_AWAY:
                raise self._busy(response)
            return self._body(response, limit)
        finally:
            response.close()

    def _send(
        self, method: str, address: Address, body: bytes | None = None
    ) -> "urllib3.BaseHTTPResponse":
        headers = {
            "User-Agent": f"dis/{VERSION}",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            # One that is kept open may be closed in the very moment in which something is sent, and then it is not
            # known whether that came to anybody.
            "Connection": "close",
        }
        if body is not None:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        if self.place.key is not None:
            headers["Authorization"] = f"Bearer {self.place.key}"
        connections = self._reading if body is None else self._completing
        connections.close()  # whatever the server says of keeping one
        response, _ = connections.send(method, address, headers, ANYWHERE, body)
        return response

    def _body(self, response: "urllib3.BaseHTTPResponse", limit: int) -> bytes:
        """Return the body of an answer that is one; what is none is refused."""
        status = response.status
        if status in REDIRECTS:
            raise _RefusedError("it leads to another address, and only the one named is asked")
        if status in (_UNAUTHORISED, _FORBIDDEN):
            raise _RefusedError(f"it does not let in who asks ({status})")
        if status != OK:
            raise _RefusedError(f"it answers with status {status}{self._reason(response)}")
        if is_encoded(response.headers):
            raise _RefusedError("its answer is encoded, which was not asked for")
        return _read(response, limit)

    def _reason(self, response: "urllib3.BaseHTTPResponse") -> str:
        """Return what a server says of a refusal, unless it was shown a key, which it may repeat."""
        if self.place.key is not None:
            return ""
        try:
            document = strict_json.decode(_read(response, _REASON_BYTES), name="the answer")
            text = str(document["error"]["message"])[:_LONGEST_REASON]
        except Exception:  # noqa: BLE001 - it is a courtesy, and may be anything
            return ""
        shown = "".join(each if each.isprintable() else " " for each in text)
        return f": {shown}"

    def _busy(self, response: "urllib3.BaseHTTPResponse") -> ServerBusyError:
        return ServerBusyError(response.status, seconds_of(response.headers.get("Retry-After")))

    def _within(self, seconds: float, action: Callable[[], _Result]) -> _Result:
        return bounded(action, seconds, self.check)

    def _document(self, data: bytes, address: Address) -> Any:
        def refuse(what: str, *, cause: str, hint: str | None = None) -> BuildError:
            del hint
            return BuildError(what, cause=cause, hint=AGAIN)

        return strict_json.decode(data, name=f"what {address} answers", error=refuse)

    def _failed(self, what: str, error: BaseException) -> BuildError:
        if isinstance(error, ServerBusyError):
            cause = f"{self.name} answers with status {error.status}, again and again"
        else:
            cause = refusals.reason(error, self.name)
        return BuildError(what, cause=cause, hint=AGAIN)

    def _refused(self, what: str, refusal: _RefusedError) -> BuildError:
        shut_out = str(_UNAUTHORISED) in str(refusal) or str(_FORBIDDEN) in str(refusal)
        return BuildError(
            what, cause=f"{self.name}: {refusal}", hint=key_hint(self.place) if shut_out else None
        )


def _read(response: "urllib3.BaseHTTPResponse", limit: int) -> bytes:
    pieces, length = [], 0
    while piece := response.read1(_CHUNK):
        length += len(piece)
        if length > limit:
            raise _RefusedError(f"it sends more than {limit} bytes")
        pieces.append(piece)
    return b"".join(pieces)
