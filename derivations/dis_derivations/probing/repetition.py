"""The graph of a run whose results come from a generation that is made once more."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dis_derivations.graph.derivation import Derivation, OutputReference
from dis_derivations.graph.graph import Graph, graph_of
from dis_derivations.probing.builder import RESULTS, ProbeBuilder
from dis_derivations.probing.experiment import Repetition

PROBE = "probe"


def probe_derivation(generation: Derivation, experiment: Mapping[str, Any]) -> Derivation:
    """Return what makes an experiment with a generation that no manifest can say."""
    return replace(
        generation,
        name=f"{generation.name}-again",
        builder=PROBE,
        builder_version=ProbeBuilder.version,
        args={
            "generation": dict(generation.args),
            "generation_version": generation.builder_version,
            "experiment": dict(experiment),
        },
    )


def repeated(graph: Graph, repetition: Repetition) -> Graph:
    """Return the graph of a run whose results come from a repetition of its generation."""
    generation, run = (graph.derivations[graph.target(name)] for name in ("generation", "run"))
    probe = probe_derivation(generation, repetition.to_json())
    run = replace(run, inputs={**run.inputs, "results": OutputReference(probe.digest, RESULTS)})
    others = [each for digest, each in graph if digest != graph.target("run")]
    targets = {**graph.targets, "generation": probe.digest, "run": run.digest}
    return graph_of([*others, probe, run], targets)
