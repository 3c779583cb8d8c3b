"""How far away an address is: this machine, this network, or the world.

A server of the world must not be able to send dis to machines that it cannot reach itself.
"""

import enum
import ipaddress

_LOOPBACK_NAME = "localhost"


class Reach(enum.Enum):
    """Where a machine is, as its address tells."""

    WORLD = "the internet"
    NETWORK = "a private network"
    LINK = "a link-local address"
    MACHINE = "this machine"


# Where a redirect may lead, by where it came from.
_MAY_LEAD_TO = {
    Reach.WORLD: frozenset({Reach.WORLD}),
    Reach.NETWORK: frozenset({Reach.WORLD, Reach.NETWORK}),
    Reach.LINK: frozenset({Reach.WORLD, Reach.NETWORK, Reach.LINK}),
    Reach.MACHINE: frozenset({Reach.WORLD, Reach.NETWORK, Reach.MACHINE}),
}
ANYWHERE = frozenset(Reach)
"""What a manifest itself may name."""
MACHINE_ONLY = frozenset({Reach.MACHINE})
"""What may be contacted without encryption."""


def reach_of(address: str) -> Reach:
    """Return where an IP address is, written in digits, with or without brackets and zone.

    Raises:
        ValueError: It is no IP address.
    """
    ip = ipaddress.ip_address(address.strip("[]").partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    # What is unspecified leads to this machine.
    if ip.is_loopback or ip.is_unspecified:
        return Reach.MACHINE
    if ip.is_link_local:
        return Reach.LINK
    return Reach.WORLD if ip.is_global and not ip.is_multicast else Reach.NETWORK


def reach_of_name(host: str) -> Reach:
    """Return where a host is, as far as its name tells: one that must be looked up counts as the world."""
    if host == _LOOPBACK_NAME or host.endswith(f".{_LOOPBACK_NAME}"):
        return Reach.MACHINE
    try:
        return reach_of(host)
    except ValueError:
        return Reach.WORLD


def is_loopback_name(host: str) -> bool:
    """Tell whether a host is this machine by its name: `localhost`, 127.0.0.0/8 or ::1."""
    if host == _LOOPBACK_NAME:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def reachable_from(reach: Reach) -> frozenset[Reach]:
    """Return where a redirect from a machine there may lead."""
    return _MAY_LEAD_TO[reach]
