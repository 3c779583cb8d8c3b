"""A worker with an engine behind it, wherever it runs, for the time of a block."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dis_derivations.engines.child.engine import ChildEngine
from dis_derivations.engines.child.launching import (
    ContainerSource,
    Surroundings,
    WorkerProgram,
    launch,
    lay_out,
)
from dis_derivations.engines.child.messages import Hello
from dis_derivations.engines.child.process import WorkerProcess
from dis_derivations.engines.model_files import ModelEnds
from dis_store.errors import BuildError, UnfitEnvironmentError

if TYPE_CHECKING:
    from dis_derivations.engines.child.worker import Worker

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@contextmanager
def opened_child(
    name: str,
    program: WorkerProgram,
    spec: Mapping[str, Any],
    files: Mapping[str, Path],
    ends: ModelEnds,
    surroundings: Surroundings,
    kind: type[ChildEngine] = ChildEngine,
) -> Iterator[tuple[ChildEngine, str]]:
    """Start a worker, and give it with the place of its model; it ends with the block, and its output is kept.

    Args:
        name: What messages call the engine.
        program: What the worker runs.
        spec: The `engine` of the closure.
        files: The files of the model, by their names inside the model directory.
        ends: What ends a sequence.
        surroundings: Where it runs.
        kind: What speaks with it.

    Raises:
        UnfitEnvironmentError: There is no such interpreter, or no Docker.
        IntegrityError: Docker has another image than the one that is pinned. Nothing was run.
        BuildError: Docker refuses.
    """
    with tempfile.TemporaryDirectory(prefix=f"dis-{name}-") as place:
        worker, model = _started(Path(place), program, spec, files, surroundings)

        def meet(hello: Hello) -> None:
            _check_hello(name, hello, surroundings)

        child = kind(name, worker, ends, surroundings.note, meet)
        try:
            with child:
                yield child, model
                if surroundings.tell_attempts is not None:
                    # While it is there still: the count ends with the container.
                    surroundings.tell_attempts(worker.packets_without_way() or 0)
        finally:
            worker.kill()
            surroundings.keep_output(child.output())


def _started(
    directory: Path,
    program: WorkerProgram,
    spec: Mapping[str, Any],
    files: Mapping[str, Path],
    surroundings: Surroundings,
) -> "tuple[Worker, str]":
    source = surroundings.container
    if source is None:
        model = lay_out(directory, program, files)
        started = launch(directory, program, spec, surroundings)
        return WorkerProcess(started, surroundings.check), str(model)
    return _contained(program, spec, surroundings, source)


def _contained(
    program: WorkerProgram,
    spec: Mapping[str, Any],
    surroundings: Surroundings,
    source: ContainerSource,
) -> "tuple[Worker, str]":
    from dis_derivations.engines.child.container import WorkerContainer
    from dis_derivations.engines.child.container_launching import container_launch, model_place

    surroundings.note("making a container; Docker is sent the image if it does not have it")
    worker = WorkerContainer(
        container_launch(program, spec, surroundings, source), surroundings.check
    )
    surroundings.note(
        f"the worker runs in a container of the image {source.image.id}, without network, as nobody"
    )
    return worker, model_place(source)


def _check_hello(name: str, hello: Hello, surroundings: Surroundings) -> None:
    """Refuse a worker on another interpreter than the result will be remembered with, or on another machine.

    Raises:
        BuildError: It is another interpreter.
        UnfitEnvironmentError: It is another machine, whose processor nobody looked at.
    """
    wanted = surroundings.facts
    if wanted is not None and dict(wanted) != dict(hello.interpreter):
        fact = next(each for each in sorted(wanted) if wanted[each] != hello.interpreter.get(each))
        raise BuildError(
            f"{name} runs on another interpreter than it was told",
            cause=f"it reports {fact} {hello.interpreter.get(fact)!r}, and the result would be remembered with "
            f"{wanted[fact]!r}",
        )
    if surroundings.container is None or not hello.boot:
        return
    if hello.boot != _BOOT.read_text("ascii").strip():
        raise UnfitEnvironmentError(
            f"the container of {name} runs on another machine",
            cause="the processor of this machine is part of what a result is remembered by",
            hint="let DOCKER_HOST name the Docker of this machine",
        )
