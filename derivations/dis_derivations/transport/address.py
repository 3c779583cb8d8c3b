"""Addresses of files on other machines: parsed strictly, and shown without anything secret."""

import re
from dataclasses import dataclass, field, replace
from urllib.parse import quote, unquote, urljoin, urlsplit

from dis_derivations.transport.reach import is_loopback_name
from dis_store.errors import InvalidInputError

_PORTS = {"https": 443, "http": 80}
_LARGEST_PORT = 65535
_LONGEST = 8192
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?|\[[0-9a-f:.]+\]")
_VISIBLE = re.compile(r"[!-~]+")
# What stays as it is written in a path: what RFC 3986 allows there, and escapes.
_PATH_CHARACTERS = "/%:@!$&'()*+,;=~-._"


class UnsafeAddressError(InvalidInputError):
    """An address must not be contacted as it is written.

    Only https is spoken, and http to this machine alone. An address in a manifest is written down in bundles and logs,
    so it holds neither a password nor a query, in which tokens are.
    """

    code = "E0240"


@dataclass(frozen=True)
class Address:
    """Where a file is.

    Attributes:
        scheme: `https`, or `http` on this machine.
        host: In lowercase, IPv6 in brackets.
        port: Always known.
        path: As it is sent, with its escapes.
        query: As it is sent; it may hold a token, so it is never shown.
        userinfo: `user:password` as written; never shown and never sent to another origin.
    """

    scheme: str
    host: str
    port: int
    path: str
    query: str = field(default="", repr=False)
    userinfo: str | None = field(default=None, repr=False)

    @property
    def origin(self) -> tuple[str, str, int]:
        """What credentials are bound to."""
        return self.scheme, self.host, self.port

    @property
    def place(self) -> str:
        """Host and, where it is not the usual one, port."""
        return self.host if self.port == _PORTS[self.scheme] else f"{self.host}:{self.port}"

    @property
    def target(self) -> str:
        """What the request line asks for."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def is_secret(self) -> bool:
        """Whether it holds what must not be written down."""
        return bool(self.query) or self.userinfo is not None

    def __str__(self) -> str:
        """Return it without password and query."""
        return f"{self.scheme}://{self.place}{self.path}"

    def below(self, path: str) -> "Address":
        """Return the address of a file below this one, which ends with `/`.

        Raises:
            UnsafeAddressError: It is no directory, or the path leaves it.
        """
        parts = path.split("/")
        if not self.path.endswith("/") or not all(parts) or {".", ".."} & set(parts):
            raise UnsafeAddressError(
                f"no file {path!r} can be below {self}",
                cause="the address of a directory ends with '/', and no path leaves it",
            )
        return replace(self, path=self.path + "/".join(quote(part, safe="") for part in parts))


def parse_address(text: str) -> Address:
    """Return an absolute address.

    Raises:
        UnsafeAddressError: It is malformed or may not be contacted. The message does not quote it.
    """
    if len(text) > _LONGEST:
        raise _refused(f"it has more than {_LONGEST} characters")
    # Parsers drop some of these without a word.
    if not text.isprintable() or " " in text:
        raise _refused("it has characters that an address must not have")
    try:
        parts = urlsplit(text)
        port, hostname = parts.port, parts.hostname
    except ValueError as error:
        raise _refused("it is malformed") from error
    if parts.scheme not in _PORTS:
        raise _refused("it must begin with https://")
    host = f"[{hostname}]" if hostname and ":" in hostname else hostname or ""
    if not _HOST.fullmatch(host) or port == 0 or (port or 0) > _LARGEST_PORT:
        raise _refused("its host or port is malformed; a name with other letters is written xn--…")
    if parts.scheme == "http" and not is_loopback_name(host):
        raise _refused(f"http is spoken to this machine alone, and {host} is another one")
    path = quote(parts.path or "/", safe=_PATH_CHARACTERS)
    userinfo = parts.netloc.rpartition("@")[0] if "@" in parts.netloc else None
    sent = path + parts.query + (userinfo or "")
    if not _VISIBLE.fullmatch(sent) or {".", ".."} & set(unquote(path).split("/")):
        raise _refused("it has characters or steps that an address must not have")
    return Address(parts.scheme, host, port or _PORTS[parts.scheme], path, parts.query, userinfo)


def follow(address: Address, location: str) -> Address:
    """Return where a redirect leads.

    Raises:
        UnsafeAddressError: Nowhere that may be contacted.
    """
    if len(location) > _LONGEST:
        raise _refused(f"it has more than {_LONGEST} characters")
    base = f"{address.scheme}://{address.place}{address.target}"
    try:
        # What a server writes as Latin-1 was UTF-8.
        absolute = urljoin(base, quote(location.encode("latin-1"), safe=_PATH_CHARACTERS + "?#[]"))
    except ValueError as error:
        raise _refused("it is malformed") from error
    return parse_address(absolute.partition("#")[0])


def check_declared(text: str) -> str:
    """Return an address of a manifest if it may be contacted and written down, else raise ValueError."""
    try:
        address = parse_address(text)
    except UnsafeAddressError as error:
        raise ValueError(f"is no address that dis contacts: {error.cause}") from error
    if address.is_secret:
        raise ValueError(
            "must hold no password and no query, because addresses are written down in bundles and "
            "logs; a password goes into ~/.netrc"
        )
    if "#" in text:
        raise ValueError("must not have a fragment (#…)")
    return text


def _refused(cause: str) -> UnsafeAddressError:
    return UnsafeAddressError("an address is refused", cause=cause)
