"""The ways to take the network from a process, in the order in which they are tried."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dis_derivations.confinement.capture import Capture
from dis_derivations.confinement.channel import Channel
from dis_derivations.confinement.child import CAPTURED, COUNTED, ENTER, ENTERED
from dis_derivations.confinement.counters import Counters
from dis_derivations.confinement.outlets import sockets, without_outlets

_CHILD = "dis_derivations.confinement.child"
_MOST_DESCRIPTORS = 4
_SECONDS_TO_BEGIN = 60.0


@dataclass(frozen=True)
class Means:
    """One way.

    Attributes:
        name: What logs and messages call it.
        how: Whether the process enters namespaces by itself, or is without network from its beginning.
        prefix: The program that starts it so, and its arguments.
    """

    name: str
    how: str
    prefix: tuple[str, ...] = ()


class MissingMeansError(Exception):
    """One way is not open here; the text says why."""


@dataclass(frozen=True)
class Started:
    """A process that has no network.

    Attributes:
        means: By which way.
        process: Its leader; what it starts belongs to its process group.
        channel: To talk with it.
        witness: Shows what it tries.
    """

    means: Means
    process: "subprocess.Popen[bytes]"
    channel: Channel
    witness: Capture | Counters


def all_means(environment: Mapping[str, str]) -> Iterator[Means]:
    """Yield the ways that may be open on this machine."""
    yield Means("a network namespace of its own", ENTER)
    program = shutil.which("bwrap", path=environment.get("PATH"))
    if program is not None:
        hidden = [str(place.resolve()) for place in sockets(environment) if place.exists()]
        binds = [word for place in hidden for word in ("--bind", "/dev/null", place)]
        without = ("--unshare-net", "--dev-bind", "/", "/")
        yield Means("bubblewrap", ENTERED, (program, *without, *binds, "--"))
    yield Means("a machine without network", ENTERED)


def start(means: Means, environment: Mapping[str, str]) -> Started:
    """Start a process without network.

    Raises:
        MissingMeansError: It cannot be taken away in this way.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        argv = _command(means, theirs.fileno(), environment)
        try:
            process = subprocess.Popen(  # noqa: S603 - our own module, and bubblewrap from the user's PATH
                argv,
                env=without_outlets(environment),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,
                # Ctrl-C is for dis alone, which lets a build end in order.
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise MissingMeansError(error.strerror) from error
    try:
        witness = _witness(ours)
    except MissingMeansError:
        ours.close()
        process.wait()
        raise
    return Started(means, process, Channel(ours), witness)


def _command(means: Means, descriptor: int, environment: Mapping[str, str]) -> Sequence[str]:
    places = map(str, sockets(environment)) if means.how == ENTER else ()
    own = (sys.executable, "-P", "-m", _CHILD, str(descriptor), means.how, *places)
    return [*means.prefix, *own]


def _witness(ours: socket.socket) -> Capture | Counters:
    """Wait until the process has no network, and return what it sent to show that."""
    ours.settimeout(_SECONDS_TO_BEGIN)
    try:
        kind, descriptors, _, _ = socket.recv_fds(ours, 1, _MOST_DESCRIPTORS)
    except TimeoutError:
        raise MissingMeansError("no answer came") from None
    ours.settimeout(None)
    if kind in {CAPTURED, COUNTED}:
        return witness_of(kind, descriptors)
    told = Channel(ours).receive() if kind else None
    raise MissingMeansError(str(told["reason"]) if told else "the process ended")


def witness_of(kind: bytes, descriptors: list[int]) -> Capture | Counters:
    """Return what shows the attempts of a process, from what it sent."""
    if kind == CAPTURED:
        (packets,) = descriptors
        return Capture(socket.socket(fileno=packets), socket.gethostname())
    return Counters(list(descriptors))
