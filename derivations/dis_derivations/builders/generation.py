"""The `generation` builder: the expensive step, in which an engine runs the requests on a closure."""

from collections.abc import Mapping

from dis_derivations.builders.loaded_engine import engine_on_demand
from dis_derivations.builders.recorded_generation import Course, generate
from dis_derivations.builders.requests import REQUESTS_DOCUMENT
from dis_derivations.engines.protocol import Batching
from dis_derivations.graph.sharding import SHARD_MEMBER, shard_size
from dis_derivations.realisation.building import BuildContext
from dis_store.digest import Digest


class GenerationBuilder:
    """Makes `results`: tokens, what the engine says about itself, and the captures that were asked for."""

    version = 1

    def build(self, context: BuildContext) -> Mapping[str, Digest]:
        """Run every request; where there are more than a shard has, shard by shard.

        Raises:
            IntegrityError: A file of the model is not what the closure says.
            UnfitEnvironmentError: The engine cannot run this model or these requests.
            BuildError: The engine failed.
        """
        from dis_derivations.builders.sharded_generation import ShardedGeneration
        from dis_derivations.tokenization.requests_document import parse_requests

        args = context.derivation.args
        batching = Batching(**args.get("batching", context.hints.get("batching", {})))
        size = args.get(SHARD_MEMBER) or shard_size(batching.max_num_seqs)
        requests = parse_requests(
            context.store.read_bytes(context.inputs["requests"].object, REQUESTS_DOCUMENT)
        )
        course = Course.of(context, len(requests))
        with engine_on_demand(context, batching) as source:
            if len(requests) <= size:
                results = generate(context, source, requests, course)
            else:
                results = ShardedGeneration(context, source, requests, course).build(size)
        return {"results": results}
