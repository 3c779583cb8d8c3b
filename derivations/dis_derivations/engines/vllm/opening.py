"""Starting vLLM: a directory for its worker, a clean process in the right environment, the model in it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dis_derivations.engines.child.engine import ChildEngine
from dis_derivations.engines.child.launching import (
    DEFAULT_PATIENCE,
    Surroundings,
    WorkerProgram,
)
from dis_derivations.engines.child.opening import opened_child
from dis_derivations.engines.protocol import (
    Batching,
    CaptureSink,
    GeneratedSequence,
    Progress,
    Request,
)
from dis_derivations.engines.vllm.agreement import check_agreement
from dis_derivations.engines.vllm.model_files import model_ends, read_config, vocabulary_size
from dis_derivations.engines.vllm.prefix_cache import CachingChild
from dis_derivations.engines.vllm.request_checks import check_requests
from dis_derivations.engines.vllm.settings import PREFIX_CACHING, engine_arguments, overridden
from dis_derivations.runs.bundle import EXPERIMENT

__all__ = ["DEFAULT_PATIENCE", "NUMERICS_VERSION", "Surroundings", "VllmEngine", "open_vllm"]

NUMERICS_VERSION = 2
"""Raised whenever what dis tells vLLM changes, and with it may bits."""

PROGRAM = WorkerProgram(Path(__file__).with_name("worker.py"))


class VllmEngine:
    """vLLM behind the interface that all engines share."""

    def __init__(
        self, child: ChildEngine, vocabulary: int | None, context: int, identity: Mapping[str, Any]
    ) -> None:
        self._child = child
        self._vocabulary = vocabulary
        self._context = context
        self._identity = identity

    def identity(self) -> Mapping[str, Any]:
        """Return what vLLM really used and can change a bit, and what of it is not what it was told."""
        if isinstance(self._child, CachingChild):
            return {**self._identity, EXPERIMENT: self._child.experiment()}
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
        """Return one sequence a request, in the order of the requests.

        Raises:
            InvalidInputError: A request does not fit the model.
            UnfitEnvironmentError: vLLM says that it cannot run these requests.
            BuildError: It failed, or computed otherwise than it was told.
        """
        check_requests(requests, self._vocabulary, self._context)
        return self._child.generate(requests, batching, sink, on_progress)


@contextmanager
def open_vllm(
    spec: Mapping[str, Any],
    files: Mapping[str, Path],
    batching: Batching,
    surroundings: Surroundings,
) -> Iterator[VllmEngine]:
    """Load a model into vLLM; it ends with the block.

    Args:
        spec: The `engine` of the closure: `name`, `numerics`, `settings`, `variables`.
        files: The files of the model, by their names inside the model directory.
        batching: How many sequences share a step.
        surroundings: Where it runs.

    Raises:
        InvalidInputError: A file of the model is missing or malformed.
        UnfitEnvironmentError: There is no such interpreter, or vLLM cannot load this model so.
        BuildError: It failed, or is not what the result is keyed by.
    """
    config = read_config(files)
    ends = model_ends(files, config, spec["settings"].get("max_model_len"))
    arguments = engine_arguments(spec["settings"], batching, config, ends.context)
    kind = CachingChild if arguments[PREFIX_CACHING] else ChildEngine
    with opened_child("vllm", PROGRAM, spec, files, ends, surroundings, kind) as (child, model):
        child.open(model, {"arguments": arguments, "variables": sorted(spec["variables"])})
        reported = dict(child.identity())
        check_agreement(reported, surroundings.platform)
        identity = _identity(spec, reported, arguments, sorted(ends.end_token_ids))
        yield VllmEngine(child, vocabulary_size(config), ends.context, identity)


def _identity(
    spec: Mapping[str, Any],
    reported: Mapping[str, Any],
    arguments: Mapping[str, Any],
    end_token_ids: list[int],
) -> dict[str, Any]:
    """Return `engine.json`'s members."""
    used = dict(reported["settings"])
    asked_variables, variables = reported["asked_variables"], reported["variables"]
    batching = ("max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill")
    return {
        "engine": "vllm",
        "numerics": spec["numerics"],
        "settings": {
            **{name: value for name, value in used.items() if name not in batching},
            "end_token_ids": end_token_ids,
        },
        "batching": {name: used[name] for name in batching},
        "overridden": {
            **overridden(arguments, used),
            **{
                name: {"asked": asked_variables[name], "used": value}
                for name, value in variables.items()
                if asked_variables.get(name) != value
            },
        },
        "variables": variables,
        "added_variables": reported["added_variables"],
        "versions": reported["versions"],
        "device": reported["device"],
        "weights": reported["weights"],
    }
