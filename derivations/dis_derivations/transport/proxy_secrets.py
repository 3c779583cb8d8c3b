"""The passwords of the proxies of an environment, taken out of what others say."""

import base64
import os
from collections.abc import Iterator, Mapping
from urllib.parse import unquote, urlsplit

_OMITTED = "…"


def without_proxy_secrets(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Return a text without the passwords of proxies, in every form in which they are sent.

    Args:
        text: What a proxy said, or a library about it.
        environment: Names the proxies; that of the process if it is None.
    """
    for secret in _secrets(os.environ if environment is None else environment):
        text = text.replace(secret, _OMITTED)
    return text


def _secrets(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if not name.lower().endswith("_proxy") or "@" not in value:
            continue
        try:
            parts = urlsplit(value if "://" in value else f"http://{value}")
        except ValueError:
            continue
        password = parts.password
        if password:
            pair = f"{unquote(parts.username or '')}:{unquote(password)}"
            yield base64.b64encode(pair.encode()).decode().rstrip("=")
            yield password
            yield unquote(password)
