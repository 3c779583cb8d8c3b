"""The HTTP client for a hub, which `huggingface_hub` is made to use for its requests too.

The token goes to the hub's own scheme, host and port and nowhere else, whatever a redirect or a next page says. What
fails for a moment is tried again; what fails for good is a `HubError` that says who said what. Imported by whoever has
something to ask, because it brings `huggingface_hub` along.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx2
import huggingface_hub
from huggingface_hub import constants
from huggingface_hub.utils import (
    disable_progress_bars,
    get_token,
    logging,
    parse_ratelimit_headers,
)

from dis_derivations.sources.hub_settings import HubSettings, origin_of
from dis_derivations.transport.proxy_secrets import without_proxy_secrets
from dis_derivations.version import VERSION
from dis_store.errors import BuildError, DisError

RETRY_SECONDS = (0.5, 1.0, 2.0, 4.0)
"""The waits between the tries of one request."""
SECONDS = 10.0
"""How long a hub may be silent, where nobody says so."""
LONGEST_WAIT = 60.0
"""Seconds that a hub may ask for; whoever asks for more is not waited for."""
MAX_ANSWER_BYTES = 64 << 20
"""The longest answer that is no file."""
_MAX_REDIRECTS = 5
_FOR_A_MOMENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_UNAUTHORISED, _FORBIDDEN, _NOT_FOUND, _TOO_MANY, _SERVER_ERRORS = 401, 403, 404, 429, 500
_LONGEST_SAYING = 300

_configuring = threading.Lock()
_configured: HubSettings | None = None


class HubError(BuildError):
    """A hub of models did not give what was asked of it: it is down, slow, busy, or does not have it.

    What was fetched before is kept. HF_ENDPOINT names another hub; HF_HUB_OFFLINE=1 goes by the cache alone.
    """

    code = "E0310"


class HubAccessError(HubError):
    """A hub of models does not let this user read a repository, or not without a token.

    Ask for access on the page of the model, and give a token in HF_TOKEN, or log in with `hf auth login`. The token is
    sent to the hub alone, and never stored by dis.
    """

    code = "E0311"


class HubClient(httpx2.Client):
    """A client for one hub."""

    def __init__(self, settings: HubSettings) -> None:
        super().__init__(
            event_hooks={"request": [self._guard]},
            follow_redirects=True,
            max_redirects=_MAX_REDIRECTS,
            headers={"Accept-Encoding": "identity"},
        )
        self._settings = settings
        self._seconds = SECONDS if settings.seconds is None else settings.seconds

    def send(
        self, request: httpx2.Request, *, stream: bool = False, **options: Any
    ) -> httpx2.Response:
        """Send a request, again where that may help; an answer that is no stream is read, up to a bound.

        Raises:
            HubError: There was no good answer.
        """
        # huggingface_hub asks without any bound on the time.
        patience = httpx2.Timeout(self._seconds).as_dict()
        request.extensions = {**request.extensions, "timeout": patience}
        waits: Iterator[float] = iter(RETRY_SECONDS)
        while True:
            try:
                response = super().send(request, stream=True, **options)
                if response.status_code < httpx2.codes.BAD_REQUEST:
                    return response if stream else _read(response)
                response.close()
                failure, wait = self._refusal(response, str(request.url)), _wait_asked_for(response)
                may_retry = response.status_code in _FOR_A_MOMENT and wait <= LONGEST_WAIT
            except (httpx2.TransportError, httpx2.TooManyRedirects, httpx2.InvalidURL) as error:
                failure, wait = self._unreachable(error, str(request.url)), 0.0
                failure.__cause__ = error
                may_retry = isinstance(error, httpx2.TransportError)
                if isinstance(error, httpx2.ConnectError | httpx2.UnsupportedProtocol):
                    # Who is not there now is hardly there in four seconds.
                    waits = islice(waits, 1)
            pause = next(waits, None) if may_retry else None
            if pause is None:
                raise failure
            time.sleep(max(pause, wait))

    def _unreachable(self, error: Exception, url: str) -> HubError:
        """Return the error for a request that got no answer, or lost it on the way."""
        host = _host(url)
        if isinstance(error, httpx2.TimeoutException):
            cause = f"{host} was silent for {self._seconds:g} seconds"
            hint = "try again, or wait longer: HF_HUB_DOWNLOAD_TIMEOUT=60"
        else:
            cause = f"{host}: {self._clean(str(error)) or type(error).__name__}"
            hint = (
                "try again; HF_ENDPOINT names another hub, HF_HUB_OFFLINE=1 goes by the cache alone"
            )
        return HubError(f"{_subject(url)} cannot be had from the hub", cause=cause, hint=hint)

    def _guard(self, request: httpx2.Request) -> None:
        """Called before each request, also those that a redirect leads to."""
        url = str(request.url)
        scheme, _, _ = self._settings.origin
        if scheme == "https" and request.url.scheme != "https":
            raise HubError(
                f"{self._settings.endpoint} leads to an address that is not encrypted",
                cause=_host(url),
                hint="do not use this hub",
            )
        if origin_of(url) != self._settings.origin:
            for name in ("Authorization", "Cookie"):
                request.headers.pop(name, None)
        # The hub's counting of downloads and tracing of requests needs no help of ours.
        for name in (constants.X_HF_DOWNLOAD_COUNTER, "X-Amzn-Trace-Id"):
            request.headers.pop(name, None)

    def _refusal(self, response: httpx2.Response, url: str) -> HubError:
        status, host = response.status_code, _host(str(response.request.url))
        said = self._clean(response.headers.get("X-Error-Message", ""))
        cause = (
            f"{host} says: {said} (HTTP {status})" if said else f"{host} answers with HTTP {status}"
        )
        subject = _subject(url)
        if status in (_UNAUTHORISED, _FORBIDDEN):
            return HubAccessError(
                f"{subject} may not be read",
                cause=cause,
                hint=access_hint(self._settings, _repository(url)),
            )
        if status == _NOT_FOUND:
            return HubError(
                f"{subject} is not there", cause=cause, hint="check its name and its revision"
            )
        if status == _TOO_MANY:
            hint = "wait, and try again" + (
                "" if self._settings.token else "; with a token in HF_TOKEN a hub allows more"
            )
            return HubError(f"{subject} cannot be had now", cause=cause, hint=hint)
        return HubError(
            f"{subject} cannot be had from the hub", cause=cause, hint="try again later"
        )

    def _clean(self, text: str) -> str:
        """Return what somebody else says as one short line without secrets."""
        if self._settings.token:
            text = text.replace(self._settings.token, "…")
        text = without_proxy_secrets(text)
        line = " ".join(text.split())
        return "".join(letter if letter.isprintable() else "?" for letter in line)[:_LONGEST_SAYING]


def access_hint(settings: HubSettings, repository: str) -> str:
    """Return what helps whoever may not read a repository."""
    if settings.token is None:
        where = f"{settings.endpoint}/settings/tokens"
        return f"log in with hf auth login, or give a token of {where}: HF_TOKEN=…"
    page = f"{settings.endpoint}/{repository}"
    return f"ask for access at {page}; the token that was sent is not enough"


def hub_client(settings: HubSettings) -> HubClient:
    """Return a client for a hub, which `huggingface_hub` uses from now on as well."""
    global _configured  # noqa: PLW0603 - one client for the whole process is how huggingface_hub has it
    with _configuring:
        if _configured != settings:
            constants.HF_HUB_DISABLE_TELEMETRY = True
            # What the environment says of it is in the settings; this was read when the package was imported.
            constants.HF_HUB_OFFLINE = False
            disable_progress_bars()
            logging.set_verbosity(logging.FATAL)
            huggingface_hub.set_client_factory(lambda: HubClient(settings))
            _configured = settings
    client = huggingface_hub.get_session()
    assert isinstance(client, HubClient)  # noqa: S101 - the factory makes no other
    return client


def with_token(settings: HubSettings) -> HubSettings:
    """Return settings with the token that `huggingface_hub` finds.

    Raises:
        HubAccessError: It cannot be had, or is none.
    """
    if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN:
        return settings
    hint = "log in again with hf auth login, or give another one: HF_TOKEN=…"
    try:
        token = get_token()
    except Exception as error:  # noqa: BLE001 - a file, a refresh over the network, a service for it: all may fail
        raise HubAccessError(
            "no token for the hub can be had", cause=type(error).__name__, hint=hint
        ) from None
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise HubAccessError(
            "the token for the hub is none", cause="it has other characters", hint=hint
        )
    return replace(settings, token=token)


def hub_api(settings: HubSettings) -> huggingface_hub.HfApi:
    """Return the API of a hub, whose requests go through `HubClient`."""
    hub_client(settings)
    return huggingface_hub.HfApi(
        endpoint=settings.endpoint,
        # Not None: it would look for one itself.
        token=settings.token or False,
        library_name="dis",
        library_version=VERSION,
    )


@contextlib.contextmanager
def understanding(what: str) -> Iterator[None]:
    """Report whatever the code that reads an answer trips over as an answer that cannot be understood.

    Raises:
        HubError: In place of any error that is not one of dis.
    """
    try:
        yield
    except DisError:
        raise
    except Exception as error:  # noqa: BLE001 - it depends on what a stranger sent
        raise HubError(
            f"the hub's answer about {what} cannot be understood",
            cause=type(error).__name__,
            hint="check that HF_ENDPOINT is the address of a hub of models",
        ) from None


def _read(response: httpx2.Response) -> httpx2.Response:
    """Return the answer with its body, which may not be of any length."""
    data = bytearray()
    try:
        for piece in response.iter_bytes():
            data += piece
            if len(data) > MAX_ANSWER_BYTES:
                raise HubError(
                    f"the answer about {_subject(str(response.request.url))} is too long",
                    cause=f"it has more than {MAX_ANSWER_BYTES >> 20} MiB",
                )
    finally:
        response.close()
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name.lower() not in ("content-encoding", "transfer-encoding", "content-length")
    ]
    whole = httpx2.Response(
        response.status_code, headers=headers, content=bytes(data), request=response.request
    )
    whole.history = response.history
    return whole


def _wait_asked_for(response: httpx2.Response) -> float:
    text = response.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    limits = parse_ratelimit_headers(response.headers)
    return float(limits.reset_in_seconds) if limits is not None and limits.remaining == 0 else 0.0


def _host(url: str) -> str:
    """Return who is at an address, without its path and query, which may hold a signature."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _repository(url: str) -> str:
    path = unquote(urlsplit(url).path).removeprefix("/").removeprefix("api/models/")
    for kind in ("/revision/", "/tree/", "/resolve/"):
        path = path.partition(kind)[0]
    return path


def _subject(url: str) -> str:
    """Return what an address of a hub is about: a repository, a revision, or a file of one."""
    path = unquote(urlsplit(url).path).removeprefix("/").removeprefix("api/models/")
    for kind in ("/revision/", "/tree/", "/resolve/"):
        name, found, rest = path.partition(kind)
        if found:
            revision, _, file = rest.partition("/")
            return f"{file} of {name}" if file else f"{name} at {revision!r}"
    return "a file"
