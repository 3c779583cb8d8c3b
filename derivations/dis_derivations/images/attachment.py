"""The connection to what runs in a container: its input, and its two outputs apart."""

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dis_derivations.images.docker_engine import answering

if TYPE_CHECKING:
    from dis_derivations.images.docker_engine import DockerEngine


class Attachment:
    """A connection to a container, made before it is started; `close` it. One thread may write while another reads.

    Args:
        engine: Has the container.
        name: What the engine calls it.
        is_spoken_with: Whether its input is written to.

    Raises:
        BuildError: The engine refuses.
        UnfitEnvironmentError: It does not answer any more.
    """

    def __init__(self, engine: "DockerEngine", name: str, *, is_spoken_with: bool = False) -> None:
        ways = {"stdin": int(is_spoken_with), "stdout": 1, "stderr": 1, "stream": 1}
        with answering("the container could not be spoken with"):
            self._stream: Any = engine.client.attach_socket(name, ways)

    def send(self, data: bytes) -> None:
        """Write to its input.

        Raises:
            OSError: It is not there any more.
        """
        self._socket.sendall(data)

    def end_input(self) -> None:
        """Let its input end.

        Raises:
            OSError: It is not there any more.
        """
        self._socket.shutdown(socket.SHUT_WR)

    def pieces(self) -> Iterator[tuple[bool, bytes]]:
        """Yield what it writes until it has ended: whether it came from its standard output, and the piece.

        Raises:
            Exception: Whatever the library raises where the connection breaks.
        """
        from docker.utils.socket import STDOUT, frames_iter

        for stream, piece in frames_iter(self._stream, tty=False):
            yield stream == STDOUT, piece

    def close(self) -> None:
        """Close the connection; who reads from it should have come to the end."""
        # The client hangs the answer that the connection belongs to on it, and that must be closed first.
        answer = getattr(self._stream, "_response", None)
        if answer is not None:
            answer.close()
        self._stream.close()

    @property
    def _socket(self) -> Any:
        # Of connections over TLS there is nothing beneath.
        return getattr(self._stream, "_sock", self._stream)
