"""What servers of the tests of transfers do once, and the bytes of another version of the file."""

from collections.abc import Callable

from file_server import Handler
from transport_site import BYTES, CONDUCT

OTHER = bytes(reversed(BYTES))


PIECE = CONDUCT.piece_bytes


class Once:
    """Does something at the first requests, and lets the server answer the others."""

    def __init__(self, action: Callable[[Handler], bool], times: int = 1) -> None:
        self.action, self.left = action, times

    def __call__(self, handler: Handler) -> bool:
        if self.left <= 0:
            return False
        self.left -= 1
        return self.action(handler)


def chunked(data: bytes, *, whole: bool = True) -> Callable[[Handler], bool]:
    def act(handler: Handler) -> bool:
        handler.say(200, ("Transfer-Encoding", "chunked"), length=None)
        for start in range(0, len(data), 5000):
            piece = data[start : start + 5000]
            handler.body(b"%x\r\n%s\r\n" % (len(piece), piece))
        if whole:
            handler.wfile.write(b"0\r\n\r\n")
        else:
            handler.hang_up()
        return True

    return act
