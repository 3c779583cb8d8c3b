"""Names of what registries hold, parsed strictly: `oci://host/repository:tag@sha256:…`, or as Docker writes them."""

import re
from dataclasses import dataclass, replace
from typing import NoReturn

from dis_derivations.transport.address import Address
from dis_derivations.transport.reach import is_loopback_name
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError

SCHEME = "oci://"
DOCKER_HUB = "docker.io"
# Docker Hub is spoken to under another name than it is written with.
_API_HOSTS = {DOCKER_HUB: "registry-1.docker.io"}
_LONGEST = 1024
_LONGEST_REPOSITORY = 255
_PORTS = {"http": 80, "https": 443}
_LARGEST_PORT = 65535
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_IPV6 = re.compile(r"\[[0-9a-f:.]{2,45}\]")
_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_PORT = re.compile(r"[1-9][0-9]{0,4}")


class RegistryReferenceError(InvalidInputError):
    """A reference to a registry is malformed.

    One is written `oci://HOST/REPOSITORY:TAG`, with `@sha256:…` in the place of the tag or behind it.
    """

    code = "E0245"


@dataclass(frozen=True)
class RegistryReference:
    """Something in a repository of a registry, or the repository itself. Law: `parse_reference(str(r)) == r`.

    Attributes:
        host: As it is written, in lowercase: a name or an address, IPv6 in brackets, and the port where one is told.
        repository: Its name, without the host.
        tag: None where there is none.
        digest: Of the manifest; None where it is not pinned.
    """

    host: str
    repository: str
    tag: str | None = None
    digest: Sha256 | None = None

    def __post_init__(self) -> None:
        _split_host(self.host)
        parts = self.repository.split("/")
        if len(self.repository) > _LONGEST_REPOSITORY or not all(map(_COMPONENT.fullmatch, parts)):
            _refuse(
                self.repository,
                "a repository is made of a-z, 0-9, '.', '_' and '-', with '/' between its parts",
            )
        if self.tag is not None:
            check_tag(self.tag)

    @property
    def scheme(self) -> str:
        """`http` on this machine, `https` elsewhere."""
        return "http" if is_loopback_name(_split_host(self.host)[0]) else "https"

    def address(self, path: str, query: str = "") -> Address:
        """Return the address of something below `/v2/` of the registry.

        Args:
            path: Made of what is allowed in an address already.
            query: Likewise.
        """
        name, port = _split_host(_API_HOSTS.get(self.host, self.host))
        return Address(self.scheme, name, port or _PORTS[self.scheme], f"/v2/{path}", query)

    @property
    def target(self) -> str:
        """What the registry is asked for: the digest, else the tag.

        Raises:
            RegistryReferenceError: There is neither.
        """
        if self.digest is not None:
            return self.digest
        if self.tag is None:
            _refuse(str(self), "it has neither a tag nor a digest")
        return self.tag

    @property
    def base(self) -> "RegistryReference":
        """The repository alone."""
        return replace(self, tag=None, digest=None)

    def with_tag(self, tag: str) -> "RegistryReference":
        """Return what a tag of the same repository names.

        Raises:
            RegistryReferenceError: It cannot be a tag.
        """
        return replace(self, tag=tag, digest=None)

    def with_digest(self, digest: Sha256) -> "RegistryReference":
        """Return the manifest of that digest in the same repository."""
        return replace(self, tag=None, digest=digest)

    def __str__(self) -> str:
        tag = "" if self.tag is None else f":{self.tag}"
        digest = "" if self.digest is None else f"@{self.digest}"
        return f"{SCHEME}{self.host}/{self.repository}{tag}{digest}"


def parse_reference(text: str) -> RegistryReference:
    """Return a reference that begins with `oci://` and names its host.

    Raises:
        RegistryReferenceError: It is malformed.
    """
    if not text.startswith(SCHEME):
        _refuse(text, f"it does not begin with {SCHEME}")
    host, slash, rest = text.removeprefix(SCHEME).partition("/")
    if not slash:
        _refuse(text, "it has no repository")
    return _parsed(text, host, rest)


def parse_image_reference(text: str) -> RegistryReference:
    """Return a reference as Docker writes it, or one that begins with `oci://` or `docker://`.

    A name without a host is one of Docker Hub.

    Raises:
        RegistryReferenceError: It is malformed.
    """
    if text.startswith(SCHEME):
        return parse_reference(text)
    short = text.removeprefix("docker://")
    host, slash, rest = short.partition("/")
    if slash and (host == "localhost" or "." in host or ":" in host):
        return _parsed(text, host, rest)
    official = "" if slash else "library/"
    return _parsed(text, DOCKER_HUB, official + short)


def check_tag(tag: str) -> str:
    """Return a tag if it is one.

    Raises:
        RegistryReferenceError: It is none.
    """
    if not _TAG.fullmatch(tag):
        _refuse(
            tag,
            "a tag has up to 128 letters, digits, '.', '_' and '-', and begins with none of '.-'",
        )
    return tag


def check_host(host: str) -> str:
    """Return the host of a registry, perhaps with its port, if it is one.

    Raises:
        RegistryReferenceError: It is none.
    """
    _split_host(host)
    return host


def _parsed(text: str, host: str, rest: str) -> RegistryReference:
    if len(text) > _LONGEST:
        _refuse(text, f"it has more than {_LONGEST} characters")
    name, at, digest = rest.partition("@")
    repository, colon, tag = name.partition(":")
    try:
        return RegistryReference(
            host, repository, tag if colon else None, Sha256(digest) if at else None
        )
    except InvalidInputError as error:
        raise _refusal(text, error.cause or error.what) from error


def _split_host(host: str) -> tuple[str, int | None]:
    if host.startswith("["):
        name, bracket, rest = host.partition("]")
        name += bracket
        colon, port = rest[:1], rest[1:]
        fits = bool(_IPV6.fullmatch(name)) and colon in ("", ":")
    else:
        name, colon, port = host.partition(":")
        fits = bool(_NAME.fullmatch(name)) and ".." not in name
    told = bool(_PORT.fullmatch(port)) and int(port) <= _LARGEST_PORT
    if not fits or (colon and not told):
        _refuse(host, "a host is a name or an address in lowercase, with ':' and a port behind it")
    return name, int(port) if colon else None


def _refuse(text: str, cause: str) -> NoReturn:
    raise _refusal(text, cause)


def _refusal(text: str, cause: str) -> RegistryReferenceError:
    return RegistryReferenceError(
        f"{text[:200]!r} is no reference to a registry",
        cause=cause,
        hint="one is written oci://HOST/REPOSITORY:TAG",
    )
