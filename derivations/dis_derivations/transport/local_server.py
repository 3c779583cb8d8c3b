"""Servers on the loopback of this machine: ports for them, and whether one answers."""

import os
import socket
from functools import cache
from typing import TYPE_CHECKING

from dis_derivations.transport.address import Address

if TYPE_CHECKING:
    from dis_derivations.transport.connections import Connections

LOOPBACK = "127.0.0.1"
_CONNECT_SECONDS, _SILENCE_SECONDS = 2.0, 5.0


def free_port() -> int:
    """Return a port on which nobody listens now; who listens there first has it."""
    with socket.socket() as listening:
        listening.bind((LOOPBACK, 0))
        return int(listening.getsockname()[1])


def is_taken(port: int) -> bool:
    """Tell whether somebody listens on a port, or nobody may."""
    with socket.socket() as listening:
        # As a server does, so that a port whose last connections are ending is none that is taken.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((LOOPBACK, port))
        except OSError:
            return True
    return False


def status_at(address: Address) -> int | None:
    """Return the status with which a server of this machine answers; None where none answers soon. Asked once."""
    import urllib3.exceptions as errors

    from dis_derivations.transport.reach import MACHINE_ONLY

    headers = {"User-Agent": "dis", "Connection": "close"}
    try:
        response, _ = _connections().send("GET", address, headers, MACHINE_ONLY)
    except (errors.HTTPError, OSError):
        return None
    try:
        return response.status
    finally:
        response.close()


@cache
def _connections() -> "Connections":
    from dis_derivations.transport.conduct import Conduct
    from dis_derivations.transport.connections import Connections

    conduct = Conduct(connect_seconds=_CONNECT_SECONDS, silence_seconds=_SILENCE_SECONDS)
    return Connections(conduct, os.environ)
