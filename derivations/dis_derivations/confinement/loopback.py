"""The loopback of a new network namespace: up, and the end of every way, so that nothing waits for an answer."""

import os
import socket
import struct

_ACKNOWLEDGED = 1 | 4  # NLM_F_REQUEST | NLM_F_ACK
_NEW_LINK, _NEW_ROUTE, _ERROR = 16, 24, 2
_CREATE = 0x400
_UP = 1
_LOOPBACK_INDEX = 1
_LOCAL_TABLE, _BY_BOOT, _SCOPE_HOST, _LOCAL = 255, 3, 254, 2
_OUTPUT, _PREFERRED_SOURCE = 4, 7
_HEADER = struct.Struct("=IHHII")


def raise_loopback() -> None:
    """Bring the loopback up; what is sent to 127.0.0.1 and ::1 arrives in this namespace.

    Raises:
        OSError: This process may not do that here.
    """
    link = struct.pack("=BxHiII", socket.AF_UNSPEC, 0, _LOOPBACK_INDEX, _UP, _UP)
    _ask(_NEW_LINK, link)


def lead_everything_to_loopback() -> None:
    """Let every address be one of this namespace's own.

    A packet to anywhere then comes back at once, is refused as nobody listens, and can be seen. Without a way there
    would be none to see.

    Raises:
        OSError: This process may not do that here, or the system has no such routes.
    """
    _ask(_NEW_ROUTE, _route(socket.AF_INET, socket.inet_aton("127.0.0.1")), _CREATE)
    if socket.has_ipv6 and os.path.exists("/proc/self/net/if_inet6"):  # noqa: PTH110
        _ask(_NEW_ROUTE, _route(socket.AF_INET6, None), _CREATE)


def _route(family: int, source: bytes | None) -> bytes:
    head = struct.pack(
        "=BBBBBBBBI", family, 0, 0, 0, _LOCAL_TABLE, _BY_BOOT, _SCOPE_HOST, _LOCAL, 0
    )
    # A program that asks which address it would have is told one of the loopback's.
    sources = b"" if source is None else _attribute(_PREFERRED_SOURCE, source)
    return head + _attribute(_OUTPUT, struct.pack("=I", _LOOPBACK_INDEX)) + sources


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value


def _ask(kind: int, body: bytes, flags: int = 0) -> None:
    length = _HEADER.size + len(body)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.send(_HEADER.pack(length, kind, _ACKNOWLEDGED | flags, 1, 0) + body)
        answer = kernel.recv(4096)
    (error,) = struct.unpack_from("=i", answer, _HEADER.size)
    if _HEADER.unpack_from(answer)[1] == _ERROR and error:
        raise OSError(-error, os.strerror(-error))
