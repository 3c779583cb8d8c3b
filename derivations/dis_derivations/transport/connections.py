"""Connections to servers: encrypted, through the proxies of the environment, and only to where they may lead."""

import os
import ssl
import urllib.request
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from dis_derivations.transport.address import Address, UnsafeAddressError
from dis_derivations.transport.conduct import Conduct
from dis_derivations.transport.reach import Reach, reach_of, reach_of_name

_POOLS = 8


class Connections:
    """Open connections, by where they may lead. Threads may share it.

    Args:
        conduct: How long to wait for one.
        environment: Names proxies (`HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`) and authorities (`SSL_CERT_FILE`,
            `SSL_CERT_DIR`).
    """

    def __init__(self, conduct: Conduct, environment: Mapping[str, str]) -> None:
        self._conduct = conduct
        self._environment = environment
        self._managers: dict[tuple[str | None, frozenset[Reach]], urllib3.PoolManager] = {}

    def send(
        self,
        method: str,
        address: Address,
        headers: Mapping[str, str],
        allowed: frozenset[Reach],
        body: bytes | Iterable[bytes] | None = None,
    ) -> tuple[urllib3.BaseHTTPResponse, Reach]:
        """Send a request; return the answer, whose body is unread, and where it came from.

        Redirects are not followed, and nothing is sent again. A body in pieces needs its `Content-Length` among the
        headers.

        Raises:
            UnsafeAddressError: The machine is not where connections may lead.
            urllib3.exceptions.HTTPError: There is no answer.
        """
        proxy = self._proxy(address)
        named = reach_of_name(address.host)
        if named not in allowed:
            raise _refused(address, named)
        response = self._manager(proxy, allowed).request(
            method,
            f"{address.scheme}://{address.host}:{address.port}{address.target}",
            headers={**headers},
            body=body,
            redirect=False,
            retries=False,
            preload_content=False,
            decode_content=False,
            timeout=urllib3.Timeout(
                connect=self._conduct.connect_seconds, read=self._conduct.silence_seconds
            ),
        )
        if proxy is not None:
            # Only the proxy knows where the name leads.
            return response, named
        return response, getattr(response.connection, "reach", named)

    def close(self) -> None:
        """Close all that nobody uses."""
        for manager in self._managers.values():
            manager.clear()

    def _proxy(self, address: Address) -> str | None:
        if address.scheme == "http":  # this machine alone
            return None
        # As Python does it, from this environment.
        proxies = {
            name.lower().removesuffix("_proxy"): value
            for name, value in sorted(self._environment.items(), key=lambda item: item[0].islower())
            if name.lower().endswith("_proxy") and value
        }
        bypassed = urllib.request.proxy_bypass_environment(  # type: ignore[attr-defined]
            address.host.strip("[]"), proxies
        )
        return None if bypassed else proxies.get("https") or proxies.get("all")

    def _manager(self, proxy: str | None, allowed: frozenset[Reach]) -> urllib3.PoolManager:
        key = (proxy, allowed)
        if key not in self._managers:
            self._managers[key] = self._new_manager(proxy, allowed)
        return self._managers[key]

    def _new_manager(self, proxy: str | None, allowed: frozenset[Reach]) -> urllib3.PoolManager:
        options: dict[str, Any] = {
            "num_pools": _POOLS,
            "maxsize": self._conduct.ranges,
            "ssl_context": _trust(self._environment),
        }
        if proxy is not None:
            return _proxy_manager(proxy, options)
        manager = urllib3.PoolManager(**options)
        manager.pool_classes_by_scheme = _pools_that_lead_to(allowed)
        return manager


def _trust(environment: Mapping[str, str]) -> ssl.SSLContext:
    """Return the authorities that are trusted: those that the environment names, else the system's."""
    file, directory = environment.get("SSL_CERT_FILE"), environment.get("SSL_CERT_DIR")
    file = file if file and os.path.isfile(file) else None  # noqa: PTH113 - text for OpenSSL
    directory = directory if directory and os.path.isdir(directory) else None  # noqa: PTH112 - as above
    context = ssl.create_default_context(cafile=file, capath=directory)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _proxy_manager(proxy: str, options: Mapping[str, Any]) -> urllib3.ProxyManager:
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    headers = None
    if parts.username is not None:
        userinfo = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers = urllib3.make_headers(proxy_basic_auth=userinfo)
    if parts.scheme not in ("http", "https") or parts.hostname is None:
        raise UnsafeAddressError(
            "the proxy that the environment names cannot be used",
            cause="it is no address of http or https",
        )
    place = parts.netloc.rpartition("@")[2]
    return urllib3.ProxyManager(f"{parts.scheme}://{place}", proxy_headers=headers, **options)


def _pools_that_lead_to(allowed: frozenset[Reach]) -> dict[str, type[HTTPConnectionPool]]:
    """Return kinds of connections that end where they stand when the machine is elsewhere.

    What a name was looked up to before may not be what is connected to, so the connection itself is asked.
    """

    class Plain(HTTPConnection):
        reach = Reach.WORLD

        def _new_conn(self) -> Any:
            sock = super()._new_conn()
            self.reach = _checked(sock, self.host, allowed & {Reach.MACHINE})
            return sock

    class Encrypted(HTTPSConnection):
        reach = Reach.WORLD

        def _new_conn(self) -> Any:
            sock = super()._new_conn()
            self.reach = _checked(sock, self.host, allowed)
            return sock

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class EncryptedPool(HTTPSConnectionPool):
        ConnectionCls = Encrypted

    return {"http": PlainPool, "https": EncryptedPool}


def _checked(sock: Any, host: str, allowed: frozenset[Reach]) -> Reach:
    reach = reach_of(sock.getpeername()[0])
    if reach not in allowed:
        sock.close()
        raise _unreachable(host, reach)
    return reach


def _refused(address: Address, reach: Reach) -> UnsafeAddressError:
    return _unreachable(address.host, reach)


def _unreachable(host: str, reach: Reach) -> UnsafeAddressError:
    return UnsafeAddressError(
        f"the server {host} is not contacted",
        cause=f"a redirect leads from elsewhere to {reach.value}, or a name to another machine than it says",
        hint="name the address itself in the manifest, if it is the right one",
    )
