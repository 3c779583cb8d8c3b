"""How a worker is started: its program and its model in a directory, a clean process in the right environment."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dis_derivations.engines.child import frames, worker_side
from dis_derivations.engines.child.environment import worker_environment
from dis_derivations.engines.child.process import Launch

if TYPE_CHECKING:
    from dis_derivations.images.stored_image import StoredImage
    from dis_store import Store
    from dis_store.digest import Digest

DEFAULT_PATIENCE = 3600.0


@dataclass(frozen=True)
class WorkerProgram:
    """What a worker runs.

    Attributes:
        path: Its file; the standard library is all that it may import before it has said hello.
        beside: Further files that it imports from its own directory.
    """

    path: Path
    beside: tuple[Path, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that must lie in one directory."""
        return (
            self.path,
            Path(str(frames.__file__)),
            Path(str(worker_side.__file__)),
            *self.beside,
        )


@dataclass(frozen=True)
class ContainerSource:
    """What a worker's container is made of.

    Attributes:
        store: Has all of it.
        image: The image.
        closure: What the engine is opened for; it is mounted with what it refers to.
        model: The directory in it that is the model.
        environment: The environment that the closure has, and that is imported from; None where the image brings its
            own.
    """

    store: "Store"
    image: "StoredImage"
    closure: "Digest"
    model: str
    environment: "Digest | None"


@dataclass(frozen=True)
class Surroundings:
    """Where a worker runs.

    Attributes:
        interpreter: The engine's own Python; None for that of the image.
        environment: An environment of the store that it imports from; None for what is installed with the interpreter.
        platform: The class and the facts of the platform that the result is keyed by.
        patience: After how many seconds of silence the worker counts as hanging.
        check: Called while waiting; raises to interrupt.
        note: Told what the worker does, a line each.
        keep_output: Given what the worker wrote to its standard output and error, also when it fails.
        facts: Of the interpreter, as the result is keyed by them; None where it is not known by facts.
        container: What it runs in; None for a process of this machine.
        tell_attempts: Told at the end how often the worker tried to reach a network that it was kept from; None where
            it is not kept from any. Raises if that is not allowed.
    """

    interpreter: Path | None
    environment: Path | None
    platform: Mapping[str, Any]
    patience: float
    check: Callable[[], None]
    note: Callable[[str], None]
    keep_output: Callable[[bytes], None]
    facts: Mapping[str, str] | None = None
    container: ContainerSource | None = None
    tell_attempts: Callable[[int], None] | None = None


def declared_by(spec: Mapping[str, Any], surroundings: Surroundings) -> dict[str, str]:
    """Return the variables that a result is keyed by, the number of threads among them.

    Args:
        spec: The `engine` of the closure, for its `variables`.
        surroundings: Where the worker runs.
    """
    threads = surroundings.platform.get("facts", {}).get("cpu", {}).get("threads")
    # Without a number an engine would choose one.
    counted = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    return {**counted, **spec.get("variables", {})}


def lay_out(directory: Path, program: WorkerProgram, files: Mapping[str, Path]) -> Path:
    """Lay a worker's program and a home into a directory, and return the model directory beside them.

    Args:
        directory: Of the worker alone.
        program: What it runs.
        files: The files of the model, by their names inside the model directory; they become links.
    """
    model = directory / "model"
    for name, real in files.items():
        link = model / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(real.absolute())
    place = directory / "program"
    place.mkdir()
    for source in program.files:
        shutil.copyfile(source, place / source.name)
    (directory / "home").mkdir()
    return model


def launch(
    directory: Path, program: WorkerProgram, spec: Mapping[str, Any], surroundings: Surroundings
) -> Launch:
    """Return how a worker is started as a process of this machine.

    Args:
        directory: Where `lay_out` put its program.
        program: What it runs.
        spec: The `engine` of the closure.
        surroundings: Where it runs.
    """
    laid = directory / "program" / program.path.name
    declared = declared_by(spec, surroundings)
    variables = worker_environment(declared, directory / "home")
    interpreter = surroundings.interpreter
    if interpreter is None:
        raise ValueError("a process of this machine needs an interpreter")
    command = [str(interpreter), "-s", "-B"]
    if surroundings.environment is not None:
        from dis_derivations.environments.launch import environment_command

        started, added = environment_command(
            surroundings.environment,
            interpreter,
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
