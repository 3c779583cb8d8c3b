"""The process without a network: gives up the way out before anything else, then makes builds for who started it.

Usage: python -m dis_derivations.confinement.child DESCRIPTOR enter|entered [PLACE…]

DESCRIPTOR is a connected socket. With `enter` the process enters namespaces of its own and hides the PLACEs; with
`entered` it was started in such a one. It then sends one byte with descriptors that show what the namespace sends
(`c`: captured packets, `n`: counters), or `x` and why there is no way.
"""

import os
import signal
import socket
import sys
from pathlib import Path

from dis_derivations.confinement import capture, counters, loopback, namespaces
from dis_derivations.confinement.channel import Channel

CAPTURED, COUNTED, REFUSED = b"c", b"n", b"x"
ENTER, ENTERED = "enter", "entered"


def main() -> None:
    """Serve until nobody is at the other end."""
    end = socket.socket(fileno=int(sys.argv[1]))
    end.set_inheritable(False)
    channel = Channel(end)
    os.dup2(2, 1)  # what a library prints is no result
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        if not _shut_and_told(end, channel):
            return
    except (BrokenPipeError, ConnectionResetError):
        # Whoever started this process was interrupted meanwhile, and is gone.
        return
    from dis_derivations.confinement.serving import serve

    serve(channel)


def _shut_and_told(end: socket.socket, channel: Channel) -> bool:
    """Close every way out and show what tells of attempts, or say why that cannot be; return whether it is closed."""
    try:
        kind, descriptors = shut([Path(each) for each in sys.argv[3:]], how=sys.argv[2])
    except OSError as error:
        socket.send_fds(end, [REFUSED], [])
        channel.send({"reason": error.strerror or str(error)})
        return False
    socket.send_fds(end, [kind], descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    return True


def shut(places: list[Path], *, how: str) -> tuple[bytes, list[int]]:
    """Close every way out of this process, and return what shows attempts: its kind, and descriptors of it.

    Raises:
        OSError: The system does not allow it.
    """
    if how == ENTERED:
        if not namespaces.has_only_loopback():
            raise OSError(0, "there is a network")
        namespaces.drop_rights(keep_files=True)
        return COUNTED, counters.open_counters()
    privileged = namespaces.enter()
    loopback.raise_loopback()
    kind, descriptors = _watched()
    namespaces.hide(places)
    namespaces.drop_rights(keep_files=privileged)
    return kind, descriptors


def _watched() -> tuple[bytes, list[int]]:
    """Return captured packets where the system can do that, else counters."""
    try:
        packets = capture.open_capture()
        loopback.lead_everything_to_loopback()
    except OSError:
        return COUNTED, counters.open_counters()
    return CAPTURED, [packets.detach()]


if __name__ == "__main__":
    main()
