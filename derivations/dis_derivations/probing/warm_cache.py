"""The experiment of a warm prefix cache: its graph, and what it found beside its comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dis_derivations.engines.protocol import Request
from dis_derivations.engines.vllm.settings import KEPT_POSITIONS, PREFIX_CACHING, kept_positions
from dis_derivations.graph.derivation import OutputReference
from dis_derivations.graph.graph import Graph, graph_of
from dis_derivations.probing.builder import FIRST_RESULTS, RESULTS
from dis_derivations.probing.experiment import WarmCache
from dis_derivations.probing.repetition import probe_derivation
from dis_store.digest import Digest
from dis_store.errors import BuildError

FIRST_RUN = "first run"


@dataclass(frozen=True)
class WarmRuns:
    """The runs that a warm cache is compared with.

    Attributes:
        uncached: The ordinary run: no prefix cache, and else the same settings.
        first: The answers of the same engine before its cache was warm.
        first_cached_tokens: How many positions those took from the cache, as requests that begin alike do.
        cached_tokens: How many the second answers took.
    """

    uncached: Digest
    first: Digest
    first_cached_tokens: int
    cached_tokens: int


def cache_settings(used: Mapping[str, Any], requests: Sequence[Request]) -> dict[str, Any]:
    """Return what the closure of the experiment says beside the settings of its manifest.

    Args:
        used: The settings that vLLM used in the run without a cache.
        requests: All of them.

    Raises:
        BuildError: No prompt is long enough to be cached.
    """
    block, context = int(used["block_size"]), int(used["max_model_len"])
    longest = max(len(each.prompt_token_ids) for each in requests)
    # At least the last position of a prompt is computed, for the logits of the first token.
    if longest <= block:
        raise BuildError(
            f"the cache keeps whole blocks of {block} positions, and the longest prompt has {longest}"
        )
    lengths = (len(each.prompt_token_ids) + each.sampling.max_tokens for each in requests)
    kept = kept_positions(min(length, context) for length in lengths)
    return {PREFIX_CACHING: True, KEPT_POSITIONS: kept}


def warmed(graph: Graph, experiment: WarmCache, settings: Mapping[str, Any]) -> Graph:
    """Return the graph of the experiment's two runs: `run` of the second answers, `first run` of the first.

    Args:
        graph: Of the run without a cache.
        experiment: What is done.
        settings: Those of the engine that the closure has beside the manifest's.
    """
    closure = graph.derivations[graph.target("closure")]
    engine = dict(closure.args["engine"])
    engine["settings"] = {**engine["settings"], **settings}
    closure = replace(closure, args={**closure.args, "engine": engine})
    made = OutputReference(closure.digest, "out")
    probe = probe_derivation(graph.derivations[graph.target("generation")], experiment.to_json())
    probe = replace(
        probe,
        inputs={**probe.inputs, "closure": made},
        outputs=(RESULTS, FIRST_RESULTS, "log"),
        compared=(RESULTS, FIRST_RESULTS),
    )
    run = graph.derivations[graph.target("run")]
    second, first = (
        replace(
            run,
            inputs={
                **run.inputs,
                "closure": made,
                "results": OutputReference(probe.digest, results),
            },
        )
        for results in (RESULTS, FIRST_RESULTS)
    )
    replaced = {graph.target("run"), graph.target("closure"), graph.target("generation")}
    others = [each for digest, each in graph if digest not in replaced]
    targets = {
        **graph.targets,
        "closure": closure.digest,
        "generation": probe.digest,
        "run": second.digest,
        FIRST_RUN: first.digest,
    }
    return graph_of([*others, closure, probe, second, first], targets)
