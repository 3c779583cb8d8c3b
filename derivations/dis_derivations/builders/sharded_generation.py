"""A generation in shards: each a derivation that the store remembers, all on one engine (docs/internals/shards.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dis_derivations.builders import shard_merging
from dis_derivations.builders.kept_shards import KeptShards
from dis_derivations.builders.loaded_engine import EngineOnDemand
from dis_derivations.builders.recorded_generation import Course, generate
from dis_derivations.builders.requests_slice import RequestsSliceBuilder, requests_document
from dis_derivations.builders.shard_merging import FinishedShard
from dis_derivations.engines.protocol import Request
from dis_derivations.graph.sharding import (
    OCCASION,
    Shard,
    shard_derivation,
    shards_of,
    slice_derivation,
)
from dis_derivations.realisation.building import BuildContext, RealisedInput
from dis_derivations.realisation.inner_builds import InnerBuild, realise_inner
from dis_derivations.runs.bundle import ENGINE_DOCUMENT
from dis_store.digest import Digest
from dis_store.errors import BuildError


@dataclass(frozen=True)
class _Made:
    """A shard that is there, whether it was made by this build, and what that took."""

    shard: Shard
    build: InnerBuild
    seconds: float

    @property
    def result(self) -> RealisedInput:
        """The results, with their log."""
        return self.build.as_input("results")


@dataclass
class ShardedGeneration:
    """One generation of a run whose requests are more than a shard has.

    Attributes:
        context: The build of the whole.
        source: The engine, loaded only if a shard is missing.
        requests: All of the run.
        course: Where it is shown how far the run has come.
    """

    context: BuildContext
    source: EngineOnDemand
    requests: Sequence[Request]
    course: Course

    def build(self, size: int) -> Digest:
        """Return the results, after making those shards of `size` requests that the store does not have.

        Raises:
            DisError: A shard cannot be made; those before it are kept.
            InterruptedBuildError: The user interrupted; what was finished is kept.
        """
        shards = shards_of(len(self.requests), size)
        self.context.log.write(f"{len(self.requests)} requests in {len(shards)} shards")
        again = self.context.is_rebuild
        kept = KeptShards(self.context)
        # Nothing ever answers for an engine that is not known, so what it has finished is of no use later.
        keeps = not again and OCCASION not in self.context.derivation.args
        made: list[_Made] = []
        for shard in shards:
            made.append(self._realised(shard, again=again))
            if keeps and not made[-1].build.cached:
                kept.keep([FinishedShard(each.shard, each.result) for each in made])
            self._tell(made[-1], len(shards))
        made = self._of_one_engine(made)
        finished = [FinishedShard(each.shard, each.result) for each in made]
        with self.context.store.new_tree() as tree:
            shard_merging.merge_results(self.context, finished, tree)
            results = tree.register()
        shard_merging.merge_logs(self.context, finished)
        kept.release()
        return results

    def _realised(self, shard: Shard, *, again: bool) -> _Made:
        """Return a shard from the store, or made now."""
        context = self.context
        context.check_interrupted()
        before = context.log.seconds()
        wanted = slice_derivation(context.derivation, shard)
        requests = realise_inner(
            context,
            wanted,
            {"requests": context.inputs["requests"]},
            RequestsSliceBuilder(self._document).build,
        )
        last = shard.first + shard.count
        build = realise_inner(
            context,
            shard_derivation(context.derivation, wanted.digest, shard),
            {**context.inputs, "requests": requests.as_input("out")},
            lambda inner: {
                "results": generate(
                    inner, self.source, self.requests[shard.first : last], self.course
                )
            },
            again=again,
        )
        self.course.end_part(shard.count)
        return _Made(shard, build, context.log.seconds() - before)

    def _tell(self, made: _Made, count: int) -> None:
        shard = made.shard
        how = "taken from the store" if made.build.cached else f"made in {made.seconds:.1f} s"
        self.context.log.write(
            f"shard {shard.number + 1} of {count} "
            f"(requests {shard.first} to {shard.first + shard.count - 1}): {how}"
        )

    @cached_property
    def _document(self) -> Mapping[str, Any]:
        return requests_document(self.context)

    def _of_one_engine(self, made: list[_Made]) -> list[_Made]:
        """Return shards whose engines say the same of themselves, after making again those that do not.

        What a key does not tell apart can be told by another version of dis in other words.

        Raises:
            BuildError: Engines say different things although all shards were made now.
        """
        said = self._said(made)
        if len(set(said)) > 1 and any(each.build.cached for each in made):
            self.context.log.write("the engines of some shards say different things of themselves")
            self.course = replace(self.course, finished=0)
            made = [
                self._realised(each.shard, again=True) if each.build.cached else each
                for each in made
            ]
            said = self._said(made)
        if len(set(said)) > 1:
            odd = next(number for number, each in enumerate(said) if each != said[0])
            raise BuildError(
                f"the shards of {self.context.derivation.name} were not made by one engine",
                cause=f"what the engine says of itself differs between shard 1 and shard {odd + 1}",
            )
        return made

    def _said(self, made: Sequence[_Made]) -> list[bytes]:
        store = self.context.store
        return [store.read_bytes(each.result.object, ENGINE_DOCUMENT) for each in made]
