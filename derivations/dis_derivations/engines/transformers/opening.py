"""Starting transformers: its worker in the right environment, the model in it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dis_derivations.engines.child.engine import ChildEngine
from dis_derivations.engines.child.launching import Surroundings, WorkerProgram
from dis_derivations.engines.child.opening import opened_child
from dis_derivations.engines.protocol import (
    Batching,
    CaptureSink,
    GeneratedSequence,
    Progress,
    Request,
)
from dis_derivations.engines.reference import drawing, elementary_functions, fixed_point
from dis_derivations.engines.transformers import portable_blake3
from dis_derivations.engines.transformers.settings import engine_arguments
from dis_derivations.engines.vllm.agreement import check_agreement
from dis_derivations.engines.vllm.model_files import model_ends, read_config, vocabulary_size
from dis_derivations.engines.vllm.request_checks import check_requests

NUMERICS_VERSION = 2
"""Raised whenever what dis tells transformers changes, and with it may bits."""

# Beside it lies what it samples with: the reference engine's own rule.
_PROGRAM = WorkerProgram(
    Path(__file__).with_name("worker.py"),
    tuple(
        Path(str(each.__file__))
        for each in (fixed_point, elementary_functions, drawing, portable_blake3)
    ),
)


@dataclass(frozen=True)
class TransformersEngine:
    """transformers behind the interface that all engines share."""

    _child: ChildEngine
    _vocabulary: int | None
    _context: int
    _identity: Mapping[str, Any]

    def identity(self) -> Mapping[str, Any]:
        """Return what transformers really used and can change a bit."""
        return self._identity

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
        """Return one sequence a request, in the order of the requests, each computed alone whatever the batching.

        Raises:
            InvalidInputError: A request does not fit the model.
            UnfitEnvironmentError: transformers says that it cannot run these requests.
            BuildError: It failed, or computed otherwise than it was told.
        """
        del batching
        check_requests(requests, self._vocabulary, self._context)
        return self._child.generate(requests, Batching(1), sink, on_progress)


@contextmanager
def open_transformers(
    spec: Mapping[str, Any], files: Mapping[str, Path], surroundings: Surroundings
) -> Iterator[TransformersEngine]:
    """Load a model into transformers; it ends with the block.

    Args:
        spec: The `engine` of the closure: `name`, `numerics`, `settings`, `variables`.
        files: The files of the model, by their names inside the model directory.
        surroundings: Where it runs.

    Raises:
        InvalidInputError: A file of the model is missing or malformed.
        UnfitEnvironmentError: There is no such interpreter, or transformers cannot load this model so.
        BuildError: It failed, or is not what the result is keyed by.
    """
    config = read_config(files)
    ends = model_ends(files, config, spec["settings"].get("max_model_len"))
    arguments = engine_arguments(spec["settings"])
    with opened_child("transformers", _PROGRAM, spec, files, ends, surroundings) as (child, model):
        child.open(model, {"arguments": arguments, "variables": sorted(spec["variables"])})
        reported = dict(child.identity())
        check_agreement(reported, surroundings.platform, "transformers")
        settings = {
            **reported["settings"],
            "end_token_ids": sorted(ends.end_token_ids),
            "max_model_len": ends.context,
        }
        identity = {
            "engine": "transformers",
            "numerics": spec["numerics"],
            **reported,
            "settings": settings,
        }
        known = vocabulary_size(config)
        yield TransformersEngine(child, known, ends.context, identity)
