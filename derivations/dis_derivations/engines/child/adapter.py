"""An engine in a worker, seen as any other: its requests are checked first, and it says what it really used."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dis_derivations.engines.child.engine import ChildEngine
from dis_derivations.engines.child.launching import Surroundings, WorkerProgram
from dis_derivations.engines.child.opening import opened_child
from dis_derivations.engines.model_files import ModelEnds
from dis_derivations.engines.protocol import (
    Batching,
    CaptureSink,
    GeneratedSequence,
    Progress,
    Request,
)
from dis_derivations.engines.request_checks import check_requests


@dataclass(frozen=True)
class Adaptation:
    """What tells one engine in a worker from another.

    Attributes:
        name: What messages call it.
        program: What its worker runs.
        vocabulary: How many tokens the model knows; None where its configuration does not say.
        ends: What ends a sequence of the model.
        settings: What the worker is told.
        identity: Makes what may be compared of what the worker said of itself, the model loaded.
        check: Shown the same before; raises if the result is keyed by something else.
        alone: Whether each request is computed alone, whatever the batching.
        child: What speaks with the worker.
    """

    name: str
    program: WorkerProgram
    vocabulary: int | None
    ends: ModelEnds
    settings: Mapping[str, Any]
    identity: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    check: Callable[[Mapping[str, Any]], None] = lambda _: None
    alone: bool = False
    child: type[ChildEngine] = ChildEngine


@dataclass(frozen=True)
class EngineAdapter:
    """A loaded model in a worker, behind the interface that all engines share."""

    _child: ChildEngine
    _adaptation: Adaptation
    _identity: Mapping[str, Any]

    def identity(self) -> Mapping[str, Any]:
        """Return what the engine really used and can change a bit, and what makes this an experiment, if it is one."""
        return {**self._identity, **self._child.experiment()}

    def environment(self) -> Mapping[str, Any]:
        """Return what was observed beside it; for the log."""
        return self._child.environment()

    def generate(
        self,
        requests: Sequence[Request],
        batching: Batching,
        sink: CaptureSink,
        on_progress: Callable[[Progress], None],
    ) -> list[GeneratedSequence]:
        """Return one sequence a request, in the order of the requests.

        Raises:
            InvalidInputError: A request does not fit the model; the worker has seen none.
            UnfitEnvironmentError: The engine says that it cannot run these requests.
            BuildError: It failed, or computed otherwise than it was told.
        """
        check_requests(requests, self._adaptation.vocabulary, self._adaptation.ends.context)
        batching = Batching(1) if self._adaptation.alone else batching
        return self._child.generate(requests, batching, sink, on_progress)


@contextmanager
def adapted_engine(
    adaptation: Adaptation,
    spec: Mapping[str, Any],
    files: Mapping[str, Path],
    surroundings: Surroundings,
) -> Iterator[EngineAdapter]:
    """Load a model into an engine in a worker; it ends with the block.

    Args:
        adaptation: The engine.
        spec: The `engine` of the closure: `name`, `numerics`, `settings`, `variables`.
        files: The files of the model, by their names inside the model directory.
        surroundings: Where it runs.

    Raises:
        UnfitEnvironmentError: The place cannot be had, or the engine cannot load this model so.
        IntegrityError: Docker has another image than the one that is pinned. Nothing was run.
        BuildError: It failed, or is not what the result is keyed by.
    """
    name, program, ends = adaptation.name, adaptation.program, adaptation.ends
    kind = adaptation.child
    with opened_child(name, program, spec, files, ends, surroundings, kind) as (child, model):
        child.open(model, adaptation.settings)
        reported = child.identity()
        adaptation.check(reported)
        yield EngineAdapter(child, adaptation, adaptation.identity(reported))
