"""A look at every packet of a network namespace that is meant for somewhere else."""

import ctypes
import socket
import struct
from dataclasses import dataclass, field

from dis_derivations.confinement.attempt import Attempt, attempt_of

_EVERY_PROTOCOL = 3  # ETH_P_ALL
_ATTACH_FILTER = 26  # SO_ATTACH_FILTER
_LONGEST_PACKET = 512
_MOST_ATTEMPTS = 100

# Classic BPF, the language of such filters (linux/filter.h).
_LOAD_WORD, _LOAD_BYTE, _LOAD_HALF, _LOAD_HALF_AFTER_HEADER = 0x20, 0x30, 0x28, 0x48
_MEASURE_HEADER, _EQUAL, _RETURN = 0xB1, 0x15, 0x06
_PACKET_TYPE, _PROTOCOL = 0xFFFFF004, 0xFFFFF000  # SKF_AD_OFF + SKF_AD_PKTTYPE, SKF_AD_PROTOCOL
_OUTGOING, _IPV4, _IPV6, _LOOPBACK, _NAME_SERVICE = 4, 0x0800, 0x86DD, 127, 53
# Each line: its label, the operation, its operand, and where to go on when the two are equal, and when not.
# Kept are packets on their way out that are not for the loopback, and questions of the name service wherever they go:
# a server of names at a loopback address speaks for the network.
_PROGRAM = (
    ("", _LOAD_WORD, _PACKET_TYPE, "", ""),
    ("", _EQUAL, _OUTGOING, "", "drop"),
    ("", _LOAD_WORD, _PROTOCOL, "", ""),
    ("", _EQUAL, _IPV4, "", "not IPv4"),
    ("", _LOAD_BYTE, 16, "", ""),
    ("", _EQUAL, _LOOPBACK, "", "keep"),
    ("", _MEASURE_HEADER, 0, "", ""),
    ("", _LOAD_HALF_AFTER_HEADER, 2, "", ""),
    ("", _EQUAL, _NAME_SERVICE, "keep", "drop"),
    ("not IPv4", _EQUAL, _IPV6, "", "drop"),
    ("", _LOAD_WORD, 24, "", ""),
    ("", _EQUAL, 0, "", "keep"),
    ("", _LOAD_WORD, 28, "", ""),
    ("", _EQUAL, 0, "", "keep"),
    ("", _LOAD_WORD, 32, "", ""),
    ("", _EQUAL, 0, "", "keep"),
    ("", _LOAD_WORD, 36, "", ""),
    ("", _EQUAL, 1, "", "keep"),
    ("", _LOAD_HALF, 42, "", ""),
    ("", _EQUAL, _NAME_SERVICE, "keep", "drop"),
    ("keep", _RETURN, _LONGEST_PACKET, "", ""),
    ("drop", _RETURN, 0, "", ""),
)


def open_capture() -> socket.socket:
    """Return a socket that gets a copy of what this network namespace sends elsewhere.

    Raises:
        OSError: The system has no such sockets, or this process may not have one.
    """
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_EVERY_PROTOCOL))
    program = _assembled()
    text = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HP", len(_PROGRAM), ctypes.addressof(text))
    packets.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, described)
    packets.setblocking(False)
    return packets


def _assembled() -> bytes:
    places = {label: number for number, (label, *_) in enumerate(_PROGRAM) if label}

    def jump(number: int, label: str) -> int:
        return places[label] - number - 1 if label else 0

    return b"".join(
        struct.pack("HBBI", operation, jump(number, equal), jump(number, other), operand)
        for number, (_, operation, operand, equal, other) in enumerate(_PROGRAM)
    )


@dataclass
class Capture:
    """The attempts of one namespace, in the order in which they were made, each once.

    Attributes:
        packets: The socket that gets their packets.
        own_name: What this machine calls itself. To look that up is no attempt to leave it.
    """

    packets: socket.socket
    own_name: str
    _seen: dict[Attempt, None] = field(default_factory=dict)

    kind = "packet capture"

    def take(self) -> list[Attempt]:
        """Return the attempts since the last call; a packet is here before its sender goes on."""
        while (packet := self._next()) is not None:
            attempt = attempt_of(packet)
            if attempt is not None and not self._is_own(attempt):
                self._seen.setdefault(attempt)
            if len(self._seen) >= _MOST_ATTEMPTS:
                break
        found = list(self._seen)
        self._seen.clear()
        return found

    def descriptor(self) -> int | None:
        """Return the descriptor that becomes readable with the next packet."""
        return self.packets.fileno()

    def close(self) -> None:
        """Let go of the namespace."""
        self.packets.close()

    def _next(self) -> bytes | None:
        try:
            return self.packets.recv(_LONGEST_PACKET)
        except BlockingIOError:
            return None

    def _is_own(self, attempt: Attempt) -> bool:
        name, own = (attempt.name or "").lower(), self.own_name.lower()
        return bool(own) and (name == own or name.startswith(f"{own}."))
