"""The `probe` builder: a generation once more, in a way that no manifest can say."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dis_derivations.builders.generation import GenerationBuilder
from dis_derivations.builders.loaded_engine import engine_on_demand
from dis_derivations.builders.recorded_generation import Course, generate
from dis_derivations.builders.requests import REQUESTS_DOCUMENT
from dis_derivations.confinement.fresh_process import build_in_fresh_process
from dis_derivations.engines.protocol import Batching
from dis_derivations.engines.registry import engine_kind
from dis_derivations.engines.vllm.prefix_cache import WARM_CACHE
from dis_derivations.realisation.building import BuildContext
from dis_derivations.runs.bundle import EXPERIMENT
from dis_store.digest import Digest
from dis_store.errors import BuildError

SAME_PROCESS, NEW_PROCESS = "same process", "new process"
RESULTS, FIRST_RESULTS = "results", "first"
"""What a build makes, and what of a warm cache is made beside it: the answers before the cache was warm."""


class ProbeBuilder:
    """Makes `results` like those of a generation, and `first` where the second answers of a warm cache are the results.

    Its arguments are `generation` (those of the generation), `generation_version` (of its builder), and `experiment`:
    its `kind`, and the `variables` of a new process.
    """

    version = 1

    def build(self, context: BuildContext) -> Mapping[str, Digest]:
        """Run every request, once more or in a new process.

        Raises:
            DisError: As the builder of generations.
        """
        args = context.derivation.args
        generation = replace(
            context.derivation,
            builder="generation",
            builder_version=GenerationBuilder.version,
            args=args["generation"],
        )
        # As a rebuild, so that no part of it is taken from the store.
        inner = replace(context, derivation=generation, is_rebuild=True)
        experiment = args["experiment"]
        if experiment["kind"] == SAME_PROCESS:
            return {RESULTS: _twice(inner).second}
        if experiment["kind"] == WARM_CACHE:
            return _warmed(inner)
        if engine_kind(args["generation"]["engine"]).has_process:
            # Its engine is a new process each time.
            return GenerationBuilder().build(inner)
        return build_in_fresh_process(inner, experiment["variables"])


@dataclass(frozen=True)
class _Answers:
    """The results of one engine that was asked twice, and what it says of itself after the second time."""

    first: Digest
    second: Digest
    identity: Mapping[str, Any]


def _twice(context: BuildContext) -> _Answers:
    """Let one engine answer all requests twice."""
    from dis_derivations.tokenization.requests_document import parse_requests

    requests = parse_requests(
        context.store.read_bytes(context.inputs["requests"].object, REQUESTS_DOCUMENT)
    )
    args = context.derivation.args
    batching = Batching(**args.get("batching", context.hints.get("batching", {})))
    course = Course.of(context, 2 * len(requests))
    with engine_on_demand(context, batching) as source:
        first = generate(context, source, requests, course)
        course.end_part(len(requests))
        second = generate(context, source, requests, course)
        return _Answers(first, second, source.loaded().engine.identity())


def _warmed(context: BuildContext) -> Mapping[str, Digest]:
    """Ask twice an engine whose closure has a prefix cache; nothing is shown where that was not used.

    Raises:
        BuildError: The second answers took nothing from it.
    """
    answers = _twice(context)
    if not answers.identity[EXPERIMENT]["cached_tokens"]:
        raise BuildError("the second answers took nothing from the prefix cache")
    return {RESULTS: answers.second, FIRST_RESULTS: answers.first}
