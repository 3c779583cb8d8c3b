"""What the environment says about the Hugging Face Hub: which one, with what token, or not at all.

The variables and their defaults are those of `huggingface_hub`, so that whoever has set it up has set up dis. They are
read here and not taken from that package, because importing it costs more than a realisation that has nothing to do.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from dis_store.errors import InvalidInputError

DEFAULT_ENDPOINT = "https://huggingface.co"
_TRUE = frozenset({"1", "ON", "YES", "TRUE"})
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True)
class HubSettings:
    """How a hub is reached.

    Attributes:
        endpoint: Its address, without a slash at the end.
        offline: Whether nothing may be asked of it.
        cache: The cache of files that `huggingface_hub` keeps, whether it is there or not.
        seconds: How long it may be silent; None where nobody says so.
        token: What proves who asks; None: nobody in particular.
    """

    endpoint: str
    offline: bool
    cache: Path
    seconds: float | None
    token: str | None = field(default=None, repr=False)

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port: the only ones that get the token."""
        return origin_of(self.endpoint)


def hub_settings(environment: Mapping[str, str] = os.environ) -> HubSettings:
    """Return the settings without the token, which `with_token` looks for.

    Raises:
        InvalidInputError: HF_ENDPOINT is no address, or a number is none.
    """
    endpoint = environment.get("HF_ENDPOINT", DEFAULT_ENDPOINT).rstrip("/")
    _check_endpoint(endpoint)
    offline = environment.get("HF_HUB_OFFLINE") or environment.get("TRANSFORMERS_OFFLINE") or ""
    return HubSettings(
        endpoint=endpoint,
        offline=offline.upper() in _TRUE,
        cache=_cache(environment),
        seconds=_seconds(environment.get("HF_HUB_DOWNLOAD_TIMEOUT")),
    )


def origin_of(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of an address; the port of the scheme where none is written."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    return parts.scheme, (parts.hostname or "").lower(), port


def _check_endpoint(endpoint: str) -> None:
    try:
        scheme, host, _ = origin_of(endpoint)
        parts = urlsplit(endpoint)
    except ValueError:
        scheme = host = ""
    if scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise InvalidInputError(
            "HF_ENDPOINT is not the address of a hub",
            hint=f"such as HF_ENDPOINT={DEFAULT_ENDPOINT}",
        )
    if scheme == "http" and host not in _LOOPBACK:
        raise InvalidInputError(
            "HF_ENDPOINT is not encrypted",
            cause=f"http is spoken to this machine alone, and {host} is another one",
            hint=f"such as HF_ENDPOINT={DEFAULT_ENDPOINT}",
        )
    if parts.username is not None or parts.password is not None:
        raise InvalidInputError(
            "HF_ENDPOINT holds a user or a password",
            cause="addresses are shown and recorded",
            hint="give the token by itself: HF_TOKEN",
        )


def token_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where `hf auth login` leaves a token, whether there is one or not."""
    named = environment.get("HF_TOKEN_PATH")
    return _expanded(named) if named else _home(environment) / "token"


def _cache(environment: Mapping[str, str]) -> Path:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return _expanded(environment[name])
    return _home(environment) / "hub"


def _home(environment: Mapping[str, str]) -> Path:
    home = environment.get("HF_HOME")
    if not home:
        home = os.path.join(environment.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")  # noqa: PTH118 - `~` is expanded below
    return _expanded(home)


def _expanded(path: str) -> Path:
    return Path(os.path.expandvars(path)).expanduser()


def _seconds(text: str | None) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InvalidInputError(f"HF_HUB_DOWNLOAD_TIMEOUT is no number of seconds: {text[:40]!r}")
    return seconds
