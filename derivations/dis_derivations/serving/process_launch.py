"""A server as a process of this machine that outlives the command: what it is started with, and how."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dis_derivations.engines.child.environment import worker_environment
from dis_derivations.serving.processes import ProcessIdentity, identify
from dis_store.errors import BuildError

# Waits for a word before it becomes the server, so that one that nobody has written down never runs: where whoever
# starts it dies before, the word does not come.
_GATE = 'cd "$1" && shift && read -r word && exec "$@" </dev/null'
_SHELL = "/bin/sh"
_LOG_MODE = 0o600


@dataclass(frozen=True)
class Places:
    """Where a server writes.

    Attributes:
        home: Its home, where it works; it is there.
        log: Gets what it says, in place of what was there.
        scratch: For files that are temporary, with a short path; it is there.
    """

    home: Path
    log: Path
    scratch: Path


@dataclass(frozen=True)
class ProcessLaunch:
    """What is started.

    Attributes:
        command: The interpreter with all its arguments.
        environment: All variables that it has.
        directory: Its home, where it works; it is there.
        log: Gets what it writes, in place of what was there.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    log: Path


def start_process(launch: ProcessLaunch, note: Callable[[ProcessIdentity], None]) -> None:
    """Start a server as the leader of a session of its own.

    Args:
        launch: What to start.
        note: Told what process it is, before it runs anything; raises to let it end.

    Raises:
        BuildError: It cannot be started.
    """
    reading, writing = os.pipe()
    try:
        pid = _spawn(launch, reading)
    except OSError as error:
        os.close(writing)
        raise BuildError("the server cannot be started", cause=error.strerror) from error
    finally:
        os.close(reading)
    with os.fdopen(writing, "wb") as gate:
        process = identify(pid)
        if process is None:
            raise BuildError("the server ended before it began", cause=f"see {launch.log}")
        note(process)
        gate.write(b"go\n")


def _spawn(launch: ProcessLaunch, reading: int) -> int:
    arguments = [_SHELL, "-c", _GATE, "sh", str(launch.directory), *launch.command]
    output = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    return os.posix_spawn(
        _SHELL,
        arguments,
        dict(launch.environment),
        file_actions=[
            (os.POSIX_SPAWN_DUP2, reading, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(launch.log), output, _LOG_MODE),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        # What Python ignores its children would ignore as well.
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
    )


def process_launch(
    started: Sequence[str],
    interpreter: Path,
    environment: Path | None,
    declared: Mapping[str, str],
    places: "Places",
) -> ProcessLaunch:
    """Return how a server is started in the interpreter of its environment, with nothing of the caller's variables.

    Args:
        started: What follows the interpreter.
        interpreter: Which Python.
        environment: An environment of the store that it imports from; None for what is installed with it.
        declared: The variables that the manifest leads to.
        places: Where it writes.

    Raises:
        UnfitEnvironmentError: The environment is not for that Python.
    """
    home, log = places.home, places.log
    variables = {**worker_environment(declared, home), "TMPDIR": str(places.scratch), **declared}
    if environment is None:
        # -s: nothing of the user's own; its home is the working directory, and is not imported from.
        command = [str(interpreter), "-s", "-B", *started]
        return ProcessLaunch(command, {**variables, "PYTHONSAFEPATH": "1"}, home, log)
    from dis_derivations.environments.launch import environment_command

    command, added = environment_command(environment, interpreter, started, inherited=variables)
    return ProcessLaunch(command, {**added, **declared}, home, log)
