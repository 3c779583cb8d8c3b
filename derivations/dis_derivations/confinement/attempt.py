"""Attempts to reach something beyond this machine, read from the packets that they would have sent."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

_PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmp", 132: "sctp"}
_WITH_PORTS = frozenset({6, 17, 132})
_NAME_SERVICE = 53
_IPV4, _IPV6 = 4, 6
_IPV4_LEAST, _IPV6_LENGTH = 20, 40
_UDP, _UDP_LENGTH, _DNS_LENGTH = 17, 8, 12
_LONGEST_LABEL = 63


@dataclass(frozen=True)
class Attempt:
    """One destination that was tried.

    Attributes:
        address: As digits.
        port: None where the protocol has none, or the packet does not hold it.
        protocol: `tcp`, `udp`, `icmp`, or the number of another one.
        name: The name that was looked up, where a look-up is what was tried.
    """

    address: str
    port: int | None
    protocol: str
    name: str | None = None

    def __str__(self) -> str:
        """Return it for people, in printable letters."""
        place = f"{self.address} port {self.port}" if self.port is not None else self.address
        asked = "" if self.name is None else f", looking up {self.name}"
        return f"{place} ({self.protocol}{asked})"


def attempt_of(packet: bytes) -> Attempt | None:
    """Return what a packet tries to reach; None where it is no packet of the internet protocols.

    Args:
        packet: From its IP header on. It may be cut off.
    """
    version = packet[0] >> 4 if packet else 0
    if version == _IPV4 and len(packet) >= _IPV4_LEAST:
        address = str(IPv4Address(packet[16:20]))
        return _attempt(address, packet[9], packet[4 * (packet[0] & 15) :])
    if version == _IPV6 and len(packet) >= _IPV6_LENGTH:
        return _attempt(str(IPv6Address(packet[24:40])), packet[6], packet[_IPV6_LENGTH:])
    return None


def _attempt(address: str, protocol: int, rest: bytes) -> Attempt:
    has_port = protocol in _WITH_PORTS and len(rest) >= 4  # noqa: PLR2004 - two ports of two bytes
    port = int.from_bytes(rest[2:4], "big") if has_port else None
    is_question = protocol == _UDP and port == _NAME_SERVICE
    name = _asked_name(rest[_UDP_LENGTH + _DNS_LENGTH :]) if is_question else None
    return Attempt(address, port, _PROTOCOLS.get(protocol, str(protocol)), name)


def _asked_name(question: bytes) -> str | None:
    """Return the name in a question of the name service (RFC 1035, 4.1.2)."""
    labels: list[str] = []
    position = 0
    while position < len(question) and (length := question[position]):
        label = question[position + 1 : position + 1 + length]
        if length > _LONGEST_LABEL or len(label) < length:
            return None
        labels.append("".join(chr(c) if 0x21 <= c <= 0x7E else "?" for c in label))  # noqa: PLR2004
        position += 1 + length
    return ".".join(labels) or None
