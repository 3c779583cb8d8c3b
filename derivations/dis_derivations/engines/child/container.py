"""A worker in a container of the pinned image, spoken with over its standard input and output.

Those two are the one way into a container that works wherever Docker does, and that ends when dis does, however that
comes about: then nobody writes to the worker any more, so it ends, and the container goes with it. A socket or a named
pipe in a directory that is mounted would need a user who may open it on both sides, and a Docker on this very kernel.
"""

import contextlib
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dis_derivations.confinement.counters import FILES, packets_without_way
from dis_derivations.engines.child.output import WorkerOutput
from dis_derivations.engines.child.pipes import Pipes
from dis_derivations.engines.child.worker import WorkerEnd, killed_by
from dis_derivations.images.attachment import Attachment
from dis_derivations.images.container import (
    USER,
    ContainerCommand,
    kill_container,
    made_container,
)
from dis_derivations.images.docker_engine import DockerEngine, answering
from dis_store.errors import BuildError

if TYPE_CHECKING:
    from dis_derivations.images.stored_image import StoredImage
    from dis_store import Store

DESCRIPTORS = ("0", "1")
"""What a worker in a container is told of its pipes."""

_CHUNK_BYTES = 1 << 16
_GOING_SECONDS = 10.0
_SIGNALLED = 128
# Prints files, a zero byte between them; one that the kernel does not have counts nothing.
_READING = """
import os, sys
print("\\0".join(open(name).read() for name in sys.argv[1:] if os.path.exists(name)))
"""


@dataclass(frozen=True)
class ContainerLaunch:
    """What is started.

    Attributes:
        store: Has the image, and the objects that are mounted.
        image: In which.
        command: The worker and all that it is given.
        patience: After how many seconds of silence it counts as hanging.
    """

    store: "Store"
    image: "StoredImage"
    command: ContainerCommand
    patience: float


class WorkerContainer:
    """A worker that runs in a container, its pipes, and everything that it wrote to its standard error.

    Args:
        launch: What to start.
        check: Called while waiting for it; raises to end the waiting.

    Raises:
        UnfitEnvironmentError: No Docker answers.
        IntegrityError: Docker has another image than the one that is pinned. Nothing was run.
        BuildError: Docker refuses.
    """

    def __init__(self, launch: ContainerLaunch, check: Callable[[], None]) -> None:
        self._output = WorkerOutput()
        self._python = launch.command.arguments[0]
        self._code: int | None = None
        with ExitStack() as stack:
            self._engine = stack.enter_context(DockerEngine.connect())
            self.name = stack.enter_context(
                made_container(launch.store, self._engine, launch.image, launch.command, check)
            )
            attached = Attachment(self._engine, self.name, is_spoken_with=True)
            stack.callback(attached.close)
            # Who waits for the end holds a connection until then.
            self._waiting = stack.enter_context(DockerEngine.connect())
            self._start(attached, launch.patience, check)
            self._cleanup = stack.pop_all()

    def _start(self, attached: Attachment, patience: float, check: Callable[[], None]) -> None:
        requests_read, requests_write = os.pipe()
        answers_read, answers_write = os.pipe()
        self.pipes = Pipes(answers_read, requests_write, check, patience)
        self._threads = [
            threading.Thread(target=work, args=arguments, daemon=True)
            for work, arguments in (
                (self._feed, (requests_read, attached)),
                (self._drain, (attached, answers_write)),
                (self._wait, ()),
            )
        ]
        for thread in self._threads:
            thread.start()
        try:
            with answering("the container could not be run"):
                self._engine.client.start(self.name)
        except BaseException:
            self.pipes.close()
            raise

    def ended(self) -> WorkerEnd:
        """Wait until the container is gone, which it is about to be, and return how it ended."""
        self._threads[-1].join(_GOING_SECONDS)
        if self._threads[-1].is_alive():
            self.kill()
            return WorkerEnd("it closed its pipes and went on")
        if self._code is None:
            return WorkerEnd("Docker does not tell how")
        # As a shell does, Docker adds the number of a signal to this.
        if self._code > _SIGNALLED:
            return killed_by(self._code - _SIGNALLED)
        return WorkerEnd(f"it ended with exit code {self._code}")

    def close(self) -> None:
        """Let the worker end by itself, for it was told to, and end it if it does not."""
        self.pipes.close()
        self._threads[-1].join(_GOING_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End the worker and everything that it started, now; nothing of its container is left."""
        self.pipes.close()
        kill_container(self._engine, self.name)
        for thread in self._threads:
            thread.join(_GOING_SECONDS)
        self._cleanup.close()

    def packets_without_way(self) -> int | None:
        """Return how often something in the container tried to reach what there is no way to.

        The kernel counts that for the container as a whole, and a process of its own, started beside the worker, reads
        the count: nothing that the worker says is believed for it.

        Raises:
            BuildError: It cannot be counted.
        """
        command = [self._python, "-I", "-S", "-c", _READING, *FILES]
        with answering("the attempts to use the network could not be counted"):
            process = self._engine.client.exec_create(self.name, command, user=USER)["Id"]
            text = self._engine.client.exec_start(process)
            code = self._engine.client.exec_inspect(process)["ExitCode"]
        if code != 0:
            raise BuildError(
                "the attempts to use the network could not be counted",
                cause=text.decode("utf-8", "replace").strip()[-300:] or f"exit code {code}",
            )
        return sum(map(packets_without_way, text.decode("utf-8").split("\0")))

    def output(self) -> bytes:
        """Return what it wrote to its standard error, and to what it takes for its standard output."""
        return self._output.kept()

    def last_line(self) -> str | None:
        """Return the last line of that, None where there is none."""
        return self._output.last_line()

    def _feed(self, requests: int, attached: Attachment) -> None:
        """Hand on what dis sends; at its end nobody writes to the worker any more."""
        with os.fdopen(requests, "rb", buffering=0) as stream, contextlib.suppress(OSError):
            while piece := stream.read(_CHUNK_BYTES):
                attached.send(piece)
            attached.end_input()

    def _drain(self, attached: Attachment, answers: int) -> None:
        """Hand on what the worker answers, and keep what else it says."""
        with os.fdopen(answers, "wb", buffering=0) as stream:
            heard = True
            # Of a container that is killed the end may come in the middle of anything.
            with contextlib.suppress(Exception):
                for is_answer, piece in attached.pieces():
                    if not is_answer:
                        self._output.add(piece)
                    elif heard:
                        heard = _written(stream, piece)

    def _wait(self) -> None:
        """Wait until the container is gone, and note how it ended."""
        with contextlib.suppress(Exception):
            # It may end before anybody could ask, so this begins before it is started.
            answer = self._waiting.client.wait(self.name, timeout=None, condition="removed")
            self._code = int(answer["StatusCode"])


def _written(stream: Any, piece: bytes) -> bool:
    """Write a piece of an answer; tell whether anybody reads on."""
    data = memoryview(piece)
    try:
        while data:
            data = data[stream.write(data) :]
    except BrokenPipeError:
        return False
    return True
