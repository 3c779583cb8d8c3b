"""A worker process: started with nothing of this process but what it is given, and ended with it."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dis_derivations.engines.child.output import WorkerOutput
from dis_derivations.engines.child.pipes import Pipes
from dis_derivations.engines.child.worker import WorkerEnd, killed_by
from dis_store.errors import UnfitEnvironmentError

_CHUNK_BYTES = 1 << 16
_GOING_SECONDS = 5.0


@dataclass(frozen=True)
class Launch:
    """What is started.

    Attributes:
        command: The interpreter and what goes before the program; the program and two descriptors are added.
        program: The worker's file, beside it `frames.py`.
        environment: All variables that the worker has.
        directory: Where it works; its home, too.
        patience: After how many seconds of silence it counts as hanging.
    """

    command: Sequence[str]
    program: Path
    environment: Mapping[str, str]
    directory: Path
    patience: float


class WorkerProcess:
    """A worker that runs, its pipes, and everything that it wrote to its standard output and error.

    It is in a session of its own, so that an interruption at the terminal comes to dis, which ends it. It ends itself
    when dis dies: it asks the kernel for that, and its requests end.

    Args:
        launch: What to start.
        check: Called while waiting for it; raises to end the waiting.

    Raises:
        UnfitEnvironmentError: The interpreter cannot be started.
    """

    def __init__(self, launch: Launch, check: Callable[[], None]) -> None:
        requests_read, requests_write = os.pipe()
        answers_read, answers_write = os.pipe()
        command = [*launch.command, str(launch.program), str(requests_read), str(answers_write)]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the interpreter that the user named, with our program
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=launch.directory,
                env=dict(launch.environment),
                pass_fds=(requests_read, answers_write),
                start_new_session=True,
            )
        except OSError as error:
            for descriptor in (requests_read, requests_write, answers_read, answers_write):
                os.close(descriptor)
            raise UnfitEnvironmentError(
                f"the interpreter {launch.command[0]} cannot be started", cause=error.strerror
            ) from error
        os.close(requests_read)
        os.close(answers_write)
        self.pipes = Pipes(answers_read, requests_write, check, launch.patience)
        self._output = WorkerOutput()
        self._drain = threading.Thread(target=self._take_output, daemon=True)
        self._drain.start()

    def ended(self) -> WorkerEnd:
        """Wait until the worker has ended, which it is about to, and return how; end it if it does not."""
        try:
            code = self._process.wait(_GOING_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return WorkerEnd("it closed its pipes and went on")
        return WorkerEnd(f"it ended with exit code {code}") if code >= 0 else killed_by(-code)

    def close(self) -> None:
        """Let the worker end by itself, for it was told to, and end it if it does not."""
        self.pipes.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GOING_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End the worker and everything that it started, now."""
        self.pipes.close()
        # The group is there as long as one process of it is; the worker leads it, and is not waited for before.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._drain.join(_GOING_SECONDS)

    def packets_without_way(self) -> int | None:
        """Return None: a process of this machine has the network of whoever starts it."""
        return None

    def output(self) -> bytes:
        """Return what it wrote: all of it, or the beginning and the end with a line about what is missing."""
        return self._output.kept()

    def last_line(self) -> str | None:
        """Return the last line that it wrote, None where there is none."""
        return self._output.last_line()

    def _take_output(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - asked for above
        with self._process.stdout as stream:
            while piece := os.read(stream.fileno(), _CHUNK_BYTES):
                self._output.add(piece)
