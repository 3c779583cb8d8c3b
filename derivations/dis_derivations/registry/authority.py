"""Who asks a registry: passwords and tokens, each shown to the one server that it is for."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from dis_derivations.registry.challenges import Challenge, challenges
from dis_derivations.registry.credentials import CredentialStore, Login, Origin
from dis_derivations.registry.errors import RegistryError, RegistryRefusedError
from dis_derivations.transport.address import Address, UnsafeAddressError, parse_address
from dis_derivations.transport.answer import is_encoded
from dis_derivations.transport.connections import Connections
from dis_derivations.transport.reach import ANYWHERE, Reach, reachable_from
from dis_derivations.transport.refusals import is_transient
from dis_derivations.transport.retrying import ServerBusyError, seconds_of
from dis_derivations.version import VERSION
from dis_store import strict_json
from dis_store.errors import InvalidInputError

_OK, _REFUSED = 200, (400, 401, 403, 404)
_LONGEST_ANSWER = 256 << 10
_LONGEST_TOKEN = 64 << 10
# What a token lives if nobody says; the specification's own number.
_USUAL_SECONDS = 60.0
_MARGIN_SECONDS = 10.0
_LONGEST_SECONDS = 86400.0


@dataclass(frozen=True)
class Scope:
    """What is going to be done: `repository:NAME:ACTIONS`, sorted. Empty for a look at the registry itself."""

    parts: tuple[str, ...] = ()

    @classmethod
    def pull(cls, *repositories: str) -> "Scope":
        """Return the scope of fetching."""
        return cls(tuple(sorted(f"repository:{each}:pull" for each in repositories)))

    @classmethod
    def push(cls, repository: str, *mounted_from: str) -> "Scope":
        """Return the scope of sending to a repository what others of the registry may have already."""
        others = Scope.pull(*(each for each in mounted_from if each != repository))
        return cls((f"repository:{repository}:pull,push", *others.parts))


@dataclass(frozen=True)
class _Token:
    value: str = field(repr=False)
    ends: float


@dataclass
class _State:
    """What is known of one registry."""

    basic: bool = False
    bearer: Challenge | None = None
    realm: Address | None = None
    reach: Reach = Reach.WORLD
    withheld: str = ""
    tokens: dict[Scope, _Token] = field(default_factory=dict)


class Authority:
    """Proves to one registry who asks. Threads share it.

    The password goes to the registry itself, and to the server that it names for tokens only if that is the same
    one, a known one, or one that the user agreed to (`dis login HOST --realm URL`). Any other server for tokens is
    asked without it.

    Args:
        host: The registry as references write it.
        connections: Where the server for tokens is reached through.
        store: The passwords.
        login: A password that comes before that of the store.
        agreed: Further servers that may be told it.
    """

    def __init__(
        self,
        host: str,
        connections: Connections,
        store: CredentialStore,
        *,
        login: Login | None = None,
        agreed: frozenset[Origin] = frozenset(),
    ) -> None:
        self._host = host
        self._agreed = agreed
        self._connections = connections
        self._store = store
        self._given = login
        self._lock = threading.RLock()
        self._state = _State()
        self._looked_up: tuple[Login | None] | None = None

    @property
    def withheld(self) -> str:
        """The server for tokens that was not told the password; empty where there is none."""
        return self._state.withheld

    @property
    def was_asked(self) -> bool:
        """Whether the registry wanted to know who asks."""
        return self._state.basic or self._state.bearer is not None

    def headers(self, scope: Scope) -> dict[str, str]:
        """Return the header for the registry's own origin that the registry is known to want; none at first.

        Raises:
            RegistryRefusedError: The server for tokens refuses.
            RegistryError: It makes no sense.
            ServerBusyError: Perhaps later.
        """
        with self._lock:
            state = self._state
            if state.bearer is not None:
                return {"Authorization": f"Bearer {self._token(scope).value}"}
            login = self._login() if state.basic else None
            return {} if login is None or login.is_identity else {"Authorization": login.basic}

    def learn(
        self, address: Address, reach: Reach, headers: Any, sent: Mapping[str, str], scope: Scope
    ) -> bool:
        """Take in a refusal; tell whether asking again may help.

        Args:
            address: What was asked for; its origin is the registry.
            reach: Where the answer came from.
            headers: Of the answer, with `getlist`.
            sent: What `headers` had given for the request.
            scope: For what.
        """
        offered = challenges(headers.getlist("WWW-Authenticate"))
        with self._lock:
            state = self._state
            bearer = next((each for each in offered if each.scheme == "bearer"), None)
            if bearer is not None:
                token = state.tokens.get(scope)
                if token is not None and sent.get("Authorization") == f"Bearer {token.value}":
                    # It was good once, or never: one new one is tried.
                    del state.tokens[scope]
                state.bearer, state.reach = bearer, reach
                state.realm = _realm(bearer, address)
                return True
            if not sent and any(each.scheme == "basic" for each in offered):
                state.basic = True
                login = self._login()
                return login is not None and not login.is_identity
            return False

    def _login(self) -> Login | None:
        if self._given is not None:
            return self._given
        with self._lock:
            if self._looked_up is None:
                self._looked_up = (self._store.login(self._host),)
            return self._looked_up[0]

    def _token(self, scope: Scope) -> _Token:
        known = self._state.tokens.get(scope)
        if known is None or known.ends < time.monotonic():
            known = self._state.tokens[scope] = self._fetch_token(scope)
        return known

    def _fetch_token(self, scope: Scope) -> _Token:
        state = self._state
        if state.realm is None or state.bearer is None:
            raise RegistryError(f"{self._host} gives no token", cause="it does not say who does")
        realm, login = state.realm, self._login()
        state.withheld = ""
        if login is not None and not self._may_know(realm):
            state.withheld, login = f"{realm.scheme}://{realm.place}", None
        response = self._ask(realm, state.bearer.service, scope, login)
        try:
            return self._read_token(response, realm, login)
        finally:
            response.close()

    def _ask(self, realm: Address, service: str, scope: Scope, login: Login | None) -> Any:
        """Ask for a token: with an identity token by OAuth 2, which puts it into the body."""
        asked = [("service", service)] if service else []
        headers = {"User-Agent": f"dis/{VERSION}", "Accept-Encoding": "identity"}
        allowed = ANYWHERE if self._may_know(realm) else reachable_from(self._state.reach)
        if login is not None and login.is_identity:
            asked += [("grant_type", "refresh_token"), ("client_id", "dis")]
            asked += [("scope", " ".join(scope.parts)), ("refresh_token", login.password)]
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = urlencode(asked).encode()
            return self._connections.send("POST", realm, headers, allowed, body)[0]
        asked += [("scope", part) for part in scope.parts]
        query = "&".join(part for part in (realm.query, urlencode(asked)) if part)
        if login is not None:
            headers["Authorization"] = login.basic
        return self._connections.send("GET", replace(realm, query=query), headers, allowed)[0]

    def _may_know(self, realm: Address) -> bool:
        own = self._origin
        return realm.origin == own or realm.origin in (
            self._agreed | self._store.realms(self._host)
        )

    @property
    def _origin(self) -> tuple[str, str, int]:
        from dis_derivations.registry.reference import RegistryReference

        return RegistryReference(self._host, "any").address("").origin

    def _read_token(self, response: Any, realm: Address, login: Login | None) -> _Token:
        status = response.status
        if is_transient(status):
            raise ServerBusyError(status, seconds_of(response.headers.get("Retry-After")))
        if status in _REFUSED:
            raise RegistryRefusedError(
                f"{self._host} gives no access",
                cause=f"{realm.place} does not take the password ({status})"
                if login is not None
                else f"{realm.place} wants to know who asks ({status})",
                hint=login_hint(self._host, self._state.withheld),
                status=401,
            )
        if status != _OK or is_encoded(response.headers):
            raise RegistryError(
                f"{realm.place} gives no token", cause=f"it answers with status {status}"
            )
        data = _read(response, _LONGEST_ANSWER)
        if data is None:
            raise RegistryError(f"{realm.place} gives no token", cause="its answer is too long")
        return _parsed(data, realm)


def login_hint(host: str, withheld: str = "") -> str:
    """Return the command that stores a password for a registry."""
    if withheld:
        return (
            f"your password was not shown to {withheld}, which {host} names for tokens; "
            f"if that is right: dis login {host} --realm {withheld}/"
        )
    return f"store a password for it: dis login {host}"


def _realm(challenge: Challenge, address: Address) -> Address:
    try:
        realm = parse_address(challenge.realm)
    except UnsafeAddressError as error:
        raise RegistryError(
            f"{address.place} gives no access",
            cause=f"the address that it names for tokens is refused: {error.cause}",
        ) from None
    if address.scheme == "https" and realm.scheme != "https":
        raise RegistryError(
            f"{address.place} gives no access", cause="it sends for tokens from https to http"
        )
    return replace(realm, userinfo=None)


def _read(response: Any, limit: int) -> bytes | None:
    pieces, length = [], 0
    while piece := response.read1(1 << 16):
        length += len(piece)
        if length > limit:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def _parsed(data: bytes, realm: Address) -> _Token:
    try:
        document = strict_json.decode(data, name="the token")
        value = document.get("token") or document.get("access_token")
        seconds = document.get("expires_in", _USUAL_SECONDS)
    except (InvalidInputError, AttributeError):
        value = seconds = None
    fits = (
        isinstance(value, str)
        and 0 < len(value) <= _LONGEST_TOKEN
        and value.isascii()
        and value.isprintable()
        and " " not in value
    )
    if not fits:
        raise RegistryError(f"{realm.place} gives no token", cause="its answer is no token")
    if type(seconds) not in (int, float) or not 0 < seconds < _LONGEST_SECONDS:
        seconds = _USUAL_SECONDS
    # A token that lives for a moment only is used all the same; a refusal fetches the next one.
    lives = max(seconds - _MARGIN_SECONDS, seconds / 2)
    return _Token(str(value), time.monotonic() + lives)
