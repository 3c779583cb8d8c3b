"""Starting the mock engine in a worker, as engines that are no part of dis are started."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dis_derivations.engines.child.engine import ChildEngine
from dis_derivations.engines.child.launching import Surroundings, WorkerProgram
from dis_derivations.engines.child.opening import opened_child
from dis_derivations.engines.mock import answers
from dis_derivations.engines.mock.engine import MockEngine, open_mock_engine
from dis_derivations.engines.protocol import (
    Batching,
    CaptureSink,
    GeneratedSequence,
    Progress,
    Request,
)
from dis_derivations.engines.reference import scheduling
from dis_derivations.engines.vllm.request_checks import check_requests

PROGRAM = WorkerProgram(
    Path(__file__).with_name("worker.py"),
    (Path(str(answers.__file__)), Path(str(scheduling.__file__))),
)


@dataclass(frozen=True)
class MockWorker:
    """The mock engine in a worker, behind the interface that all engines share."""

    _child: ChildEngine
    _told: MockEngine

    def identity(self) -> Mapping[str, Any]:
        """Return what the mock engine in dis returns: where it runs changes no bit."""
        return self._told.identity()

    def environment(self) -> Mapping[str, Any]:
        """Return the note, and what was observed; for the log."""
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
            InvalidInputError: A request does not fit the model.
            BuildError: The worker failed.
        """
        check_requests(requests, self._told.vocabulary, self._told.ends.context)
        return self._child.generate(requests, batching, sink, on_progress)


@contextmanager
def open_mock_worker(
    spec: Mapping[str, Any],
    files: Mapping[str, Path],
    batching: Batching,
    surroundings: Surroundings,
) -> Iterator[MockWorker]:
    """Start the mock engine in a worker; it ends with the block.

    Args:
        spec: The `engine` of the closure: `name`, `numerics`, `settings`.
        files: The files of the model, by their names inside the model directory.
        batching: How many sequences share a step.
        surroundings: Where it runs.

    Raises:
        InvalidInputError: A file of the model is missing or malformed.
        UnfitEnvironmentError: The place cannot be had.
        BuildError: The worker failed.
    """
    told = open_mock_engine(files, max_model_len=spec["settings"].get("max_model_len"))
    with opened_child("mock", PROGRAM, spec, files, told.ends, surroundings) as (child, model):
        settings = {
            "vocabulary": told.vocabulary,
            "max_num_batched_tokens": batching.max_num_batched_tokens,
        }
        child.open(model, settings)
        yield MockWorker(child, told)
