"""Docker's own client, which trusts the authority that was named for the engine and no other.

Imported only where an engine is spoken to: the library takes its time.
"""

from collections.abc import Mapping, MutableMapping
from typing import Any

from docker import APIClient


class EngineClient(APIClient):  # type: ignore[misc] # the library has no types
    """The client. `REQUESTS_CA_BUNDLE` of the environment is for other servers than the engine."""

    def merge_environment_settings(
        self,
        url: str,
        proxies: MutableMapping[str, str] | None,
        stream: bool | None,
        verify: Any,
        cert: Any,
    ) -> Mapping[str, Any]:
        """Return the settings of a request; `requests` would let the environment go before those of the client."""
        own = self.verify if verify is None else verify
        merged: Mapping[str, Any] = super().merge_environment_settings(
            url, proxies, stream, own, cert
        )
        return merged
