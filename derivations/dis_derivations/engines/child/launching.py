"""Starting a worker: a directory with its program and its model, a clean process in the right environment."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dis_derivations.engines.child import frames, worker_side
from dis_derivations.engines.child.environment import worker_environment
from dis_derivations.engines.child.process import Launch

DEFAULT_PATIENCE = 3600.0


@dataclass(frozen=True)
class Surroundings:
    """Where a worker runs.

    Attributes:
        interpreter: The engine's own Python.
        environment: An environment of the store that it imports from; None for what is installed with the interpreter.
        platform: The class and the facts of the platform that the result is keyed by.
        patience: After how many seconds of silence the worker counts as hanging.
        check: Called while waiting; raises to interrupt.
        note: Told what the worker does, a line each.
        keep_output: Given what the worker wrote to its standard output and error, also when it fails.
    """

    interpreter: Path
    environment: Path | None
    platform: Mapping[str, Any]
    patience: float
    check: Callable[[], None]
    note: Callable[[str], None]
    keep_output: Callable[[bytes], None]


def lay_out(directory: Path, program: Path, files: Mapping[str, Path]) -> Path:
    """Lay a worker's program and a home into a directory, and return the model directory beside them.

    Args:
        directory: Of the worker alone.
        program: The worker's file.
        files: The files of the model, by their names inside the model directory; they become links.
    """
    model = directory / "model"
    for name, real in files.items():
        link = model / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(real.absolute())
    place = directory / "program"
    place.mkdir()
    for source in (program, Path(str(frames.__file__)), Path(str(worker_side.__file__))):
        shutil.copyfile(source, place / source.name)
    (directory / "home").mkdir()
    return model


def launch(
    directory: Path, program: Path, spec: Mapping[str, Any], surroundings: Surroundings
) -> Launch:
    """Return how a worker is started.

    Args:
        directory: Where `lay_out` put its program.
        program: The worker's file, for its name.
        spec: The `engine` of the closure, for its `variables`.
        surroundings: Where it runs.
    """
    laid = directory / "program" / program.name
    facts = surroundings.platform.get("facts", {})
    threads = facts.get("cpu", {}).get("threads")
    # Without a number an engine would choose one.
    counted = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    declared = {**counted, **spec["variables"]}
    variables = worker_environment(declared, directory / "home")
    command = [str(surroundings.interpreter), "-s", "-B"]
    if surroundings.environment is not None:
        from dis_derivations.environments.launch import environment_command

        started, added = environment_command(
            surroundings.environment,
            surroundings.interpreter,
            [str(laid)],
            inherited=variables,
        )
        command = started[:-1]
        variables = {**added, **{name: declared[name] for name in declared}}
    return Launch(
        command=command,
        program=laid,
        environment=variables,
        directory=directory / "home",
        patience=surroundings.patience,
    )
