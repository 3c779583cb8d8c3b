"""Where a redirect leads, as far as it may lead anywhere."""

from dataclasses import replace

from dis_derivations.transport.address import Address, UnsafeAddressError, follow

MAX_REDIRECTS = 10
REDIRECTS = frozenset({301, 302, 303, 307, 308})
"""The statuses that name another address for the same request."""


def followed(asked: Address, current: Address, location: str) -> Address:
    """Return where a redirect leads.

    Args:
        asked: What was asked for first, for messages.
        current: Who redirects.
        location: What it says.

    Raises:
        UnsafeAddressError: Nowhere that may be contacted.
    """
    try:
        following = follow(current, location)
    except UnsafeAddressError as error:
        raise _misled(asked, current, error.cause or "") from None
    if current.scheme == "https" and following.scheme != "https":
        raise _misled(asked, current, "it leads from https to http")
    # A password that a server gives along is not ours to send.
    return replace(following, userinfo=None)


def _misled(asked: Address, current: Address, cause: str) -> UnsafeAddressError:
    return UnsafeAddressError(
        f"{asked} cannot be fetched",
        cause=f"the redirect of {current.place} is not followed: {cause}",
    )
