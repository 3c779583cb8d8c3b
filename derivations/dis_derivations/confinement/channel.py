"""Messages between dis and the process without a network: JSON documents, each after its length."""

import json
import socket
import struct
import threading
from typing import Any

_LENGTH = struct.Struct(">Q")
# A manifest, its lock and the files beside it; nobody sends more.
_LONGEST = 1 << 30


class Channel:
    """One end of a connected socket. Several threads may send, one receives.

    What comes from the other end is data: it is parsed as JSON, and nothing of it is run.
    """

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._sending = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        """Send one message.

        Raises:
            OSError: Nobody is there.
        """
        data = json.dumps(message).encode()
        with self._sending:
            self.end.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self) -> dict[str, Any] | None:
        """Return the next message; None when the other end is gone."""
        try:
            head = self._exactly(_LENGTH.size)
            size = 0 if head is None else _LENGTH.unpack(head)[0]
            data = self._exactly(size) if 0 < size <= _LONGEST else None
        except ConnectionError:
            return None
        message = None if data is None else json.loads(data)
        return message if isinstance(message, dict) else None

    def close(self) -> None:
        """Let the other end know that there is nobody."""
        self.end.close()

    def _exactly(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            piece = self.end.recv(min(size - len(data), 1 << 20))
            if not piece:
                return None
            data += piece
        return bytes(data)
