"""Starting vLLM: its worker in the right environment, the model in it."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from dis_derivations.engines.child.adapter import Adaptation, EngineAdapter, adapted_engine
from dis_derivations.engines.child.agreement import check_agreement
from dis_derivations.engines.child.engine import ChildEngine
from dis_derivations.engines.child.launching import Surroundings, WorkerProgram
from dis_derivations.engines.model_files import model_ends, read_config, vocabulary_size
from dis_derivations.engines.protocol import Batching
from dis_derivations.engines.vllm.prefix_cache import CachingChild
from dis_derivations.engines.vllm.settings import PREFIX_CACHING, engine_arguments, overridden

NUMERICS_VERSION = 2
"""Raised whenever what dis tells vLLM changes, and with it may bits."""

PROGRAM = WorkerProgram(Path(__file__).with_name("worker.py"))


def open_vllm(
    spec: Mapping[str, Any],
    files: Mapping[str, Path],
    batching: Batching,
    surroundings: Surroundings,
) -> AbstractContextManager[EngineAdapter]:
    """Load a model into vLLM, as `adapted_engine` does.

    Raises:
        InvalidInputError: A file of the model is missing or malformed.
    """
    config = read_config(files)
    ends = model_ends(files, config, spec["settings"].get("max_model_len"))
    arguments = engine_arguments(spec["settings"], batching, config, ends.context)
    adaptation = Adaptation(
        name="vllm",
        program=PROGRAM,
        vocabulary=vocabulary_size(config),
        ends=ends,
        settings={"arguments": arguments, "variables": sorted(spec["variables"])},
        identity=partial(_identity, spec, arguments, sorted(ends.end_token_ids)),
        check=partial(check_agreement, "vLLM", surroundings.platform),
        child=CachingChild if arguments[PREFIX_CACHING] else ChildEngine,
    )
    return adapted_engine(adaptation, spec, files, surroundings)


def _identity(
    spec: Mapping[str, Any],
    arguments: Mapping[str, Any],
    end_token_ids: list[int],
    reported: Mapping[str, Any],
) -> dict[str, Any]:
    """Return `engine.json`'s members."""
    used = reported["settings"]
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
