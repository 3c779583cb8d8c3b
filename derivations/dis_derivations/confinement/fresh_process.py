"""A process of dis that is started for one build, with variables of its own.

Usage: python -m dis_derivations.confinement.fresh_process DESCRIPTOR

DESCRIPTOR is a connected socket, over which orders come and results go as to a process without network
(`serving.py`). Nothing is taken from this one: it may use whatever who started it may use.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dis_derivations.confinement.channel import Channel
from dis_derivations.confinement.wire import failure_of, files_of, order_of
from dis_derivations.realisation.events import Measure
from dis_store import Realisation
from dis_store.digest import Digest
from dis_store.errors import BuildError

if TYPE_CHECKING:
    from dis_derivations.realisation.building import BuildContext

_SECONDS_BETWEEN_LOOKS = 0.1
_SECONDS_TO_END = 5.0


def build_in_fresh_process(
    context: "BuildContext", variables: Mapping[str, str]
) -> Mapping[str, Digest]:
    """Have a build made in a process that is started for it, and return its outputs.

    Args:
        context: The build.
        variables: What the environment of the process has beside that of this one.

    Raises:
        DisError: As the builder; or the process ended before the build did.
    """
    said = " ".join(f"{name}={value}" for name, value in variables.items())
    context.log.write(f"a new process{f' with {said}' if said else ''}")
    with _started(variables) as (channel, process):
        channel.send({"message": "build", "order": order_of(context)})
        message = _last_message(channel, context)
        if message is None:
            code = process.wait()
            raise BuildError(
                f"the process that built {context.derivation.name} ended before its build",
                cause=f"signal {-code}" if code < 0 else f"its exit code was {code}",
            )
    if message["message"] == "failed":
        raise failure_of(message["failure"])
    if message["message"] != "built":
        raise RuntimeError(message.get("trace", message["message"]))
    outputs = {name: Digest(digest) for name, digest in message["outputs"].items()}
    if not context.store.protect_all(outputs.values()):
        raise BuildError(f"what was built for {context.derivation.name} is not in the store")
    context.log_files.update(files_of(message["log_files"]))
    return outputs


@contextmanager
def _started(
    variables: Mapping[str, str],
) -> "Iterator[tuple[Channel, subprocess.Popen[bytes]]]":
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    with theirs:
        process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", __name__, str(theirs.fileno())],
            env={**os.environ, **variables},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=2,
            # Ctrl-C is for dis alone, which lets a build end in order.
            start_new_session=True,
        )
    try:
        yield channel, process
    finally:
        with contextlib.suppress(OSError):
            channel.send({"message": "end"})
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        channel.close()


def _last_message(channel: Channel, context: "BuildContext") -> Mapping[str, Any] | None:
    """Pass on what is told of the build until it ends; None where the process is gone."""
    stopping = False
    while True:
        if not stopping and context.cancelled():
            channel.send({"message": "stop"})
            stopping = True
        if not select.select([channel.end], [], [], _SECONDS_BETWEEN_LOOKS)[0]:
            continue
        message = channel.receive()
        if message is None:
            return None
        match message["message"]:
            case "log":
                context.log.write(message["line"])
            case "progress":
                measures = tuple(Measure(*each) for each in message["measures"])
                context.report(message["text"], measures)
            case "record":
                made = Realisation.decode(
                    message["realisation"].encode(), name="the record of a build"
                )
                context.store.protect_all(made.outputs.values())
                context.record(made)
            case _:
                return message


def main() -> None:
    """Serve until nobody is at the other end."""
    from dis_derivations.confinement.serving import serve

    end = socket.socket(fileno=int(sys.argv[1]))
    end.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    serve(Channel(end))


if __name__ == "__main__":
    main()
