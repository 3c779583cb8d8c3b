"""Where a server is, and the key that it wants: from the manifest and from the environment of the user."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dis_derivations.transport.address import Address, UnsafeAddressError, parse_address
from dis_store.errors import InvalidInputError

API_KEY = "DIS_SERVER_API_KEY"
_VERSIONED = "/v1"
_LONGEST_KEY = 4096


@dataclass(frozen=True)
class Place:
    """A server.

    Attributes:
        root: Its address, ending with `/`, below which `v1/` is.
        key: What it wants to be shown; None for nothing. Never shown to any other server.
    """

    root: Address
    key: str | None = field(default=None, repr=False)

    def below(self, path: str, query: str = "") -> Address:
        """Return the address of something that it offers."""
        return replace(self.root.below(path), query=query)


def server_place(base_url: str, environment: Mapping[str, str]) -> Place:
    """Return where a manifest's server is.

    Args:
        base_url: `runtime.execution.base_url`, with or without a `/v1` at its end.
        environment: Of the user; it alone may have the key.

    Raises:
        InvalidInputError: The address may not be contacted or written down, or the key is malformed.
    """
    try:
        address = parse_address(base_url)
    except UnsafeAddressError as error:
        raise InvalidInputError(
            "runtime.execution.base_url is no address that dis contacts", cause=error.cause
        ) from error
    if address.is_secret or "#" in base_url:
        raise InvalidInputError(
            "runtime.execution.base_url must hold no password, no query and no fragment",
            cause="a manifest is written down in bundles and logs",
            hint=_how(address),
        )
    path = address.path.rstrip("/").removesuffix(_VERSIONED)
    root = replace(address, path=f"{path}/")
    return Place(root, _key_for(root, environment))


def key_hint(place: Place) -> str:
    """Return how a key for a server is given."""
    return _how(place.root)


def _how(address: Address) -> str:
    origin = f"{address.scheme}://{address.place}"
    return f"give the server's key in a variable, with the server that may see it: {API_KEY}='{origin} KEY'"


def _key_for(root: Address, environment: Mapping[str, str]) -> str | None:
    """Return the key that is meant for a server: a manifest that names another one is not to be shown it."""
    value = environment.get(API_KEY)
    if not value:
        return None
    origin, _, key = value.strip().partition(" ")
    key = key.strip()
    try:
        meant = parse_address(origin)
    except UnsafeAddressError as error:
        raise _malformed(root, error.cause or "") from None
    if not key or len(key) > _LONGEST_KEY or not (key.isascii() and key.isprintable()):
        raise _malformed(root, "there is no key after it, or none that can be sent")
    return key if meant.origin == root.origin else None


def _malformed(root: Address, cause: str) -> InvalidInputError:
    # Nothing of the value is quoted: it holds a key.
    return InvalidInputError(
        f"{API_KEY} is malformed", cause=f"it begins with a server: {cause}", hint=_how(root)
    )
