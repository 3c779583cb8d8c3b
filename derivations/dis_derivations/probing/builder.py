"""The `probe` builder: a generation once more, in a way that no manifest can say."""

from collections.abc import Mapping
from dataclasses import replace

from dis_derivations.builders.generation import GenerationBuilder
from dis_derivations.builders.loaded_engine import engine_on_demand
from dis_derivations.builders.recorded_generation import Course, generate
from dis_derivations.builders.requests import REQUESTS_DOCUMENT
from dis_derivations.confinement.fresh_process import build_in_fresh_process
from dis_derivations.engines.protocol import Batching
from dis_derivations.engines.registry import engine_kind
from dis_derivations.realisation.building import BuildContext
from dis_store.digest import Digest

SAME_PROCESS, NEW_PROCESS = "same process", "new process"


class ProbeBuilder:
    """Makes `results` like those of a generation.

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
            return _twice(inner)
        if engine_kind(args["generation"]["engine"]).has_process:
            # Its engine is a new process each time.
            return GenerationBuilder().build(inner)
        return build_in_fresh_process(inner, experiment["variables"])


def _twice(context: BuildContext) -> Mapping[str, Digest]:
    """Let one engine answer all requests twice, and return the second answers."""
    from dis_derivations.tokenization.requests_document import parse_requests

    requests = parse_requests(
        context.store.read_bytes(context.inputs["requests"].object, REQUESTS_DOCUMENT)
    )
    args = context.derivation.args
    batching = Batching(**args.get("batching", context.hints.get("batching", {})))
    course = Course.of(context, 2 * len(requests))
    with engine_on_demand(context, batching) as source:
        generate(context, source, requests, course)
        course.end_part(len(requests))
        return {"results": generate(context, source, requests, course)}
