"""How a long run is divided: shards of consecutive requests, each a generation (docs/internals/shards.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.graph.derivation import Derivation, OutputReference
from dis_store.digest import Digest

SHARD_REQUESTS = 128
"""Requests in a shard, at least: the next multiple of `max_num_seqs`, so that no batch reaches over an end.

Fewer would cost more in records and files; more would lose more when a run is interrupted.
"""

SHARD_MEMBER = "shard_requests"
"""The argument of a generation that says its division, where that can be seen in the results."""

OCCASION = "occasion"
"""The argument of a generation whose engine is not known: a word that was never used before."""

_NUMBER_DIGITS = 5


@dataclass(frozen=True)
class Shard:
    """Consecutive requests of a run.

    Attributes:
        number: Of the shard, from 0.
        first: The index of its first request in the run.
        count: How many requests it has.
    """

    number: int
    first: int
    count: int

    @property
    def label(self) -> str:
        """The number in the form in which names and paths have it."""
        return f"{self.number:0{_NUMBER_DIGITS}d}"


def shard_size(max_num_seqs: int) -> int:
    """Return how many requests a shard has whose batches hold `max_num_seqs` of them."""
    batches = -(-SHARD_REQUESTS // max_num_seqs)
    return batches * max_num_seqs


def shards_of(requests: int, size: int) -> tuple[Shard, ...]:
    """Return the shards of a run, in order; the last one has what is left, and is not padded.

    Args:
        requests: How many the run has.
        size: How many a shard has.
    """
    return tuple(
        Shard(number, first, min(size, requests - first))
        for number, first in enumerate(range(0, requests, size))
    )


def division(document: Mapping[str, Any], capture: Mapping[str, Any], seqs: int) -> dict[str, int]:
    """Return the argument that says how a generation is divided, where its results may show that; else nothing.

    An engine that fills the place of a finished sequence at once cannot do so over the end of a shard. No token and no
    logit of it depends on that, but a captured trace of the batches shows it.

    Args:
        document: The manifest.
        capture: What the engine captures, with every default filled in.
        seqs: How many requests share a batch.
    """
    inference = document["inference"]
    requests = inference.get("n_prompts", len(inference.get("requests", ())))
    size = shard_size(seqs)
    return {SHARD_MEMBER: size} if capture["engine_trace"] and requests > size else {}


def slice_derivation(generation: Derivation, shard: Shard) -> Derivation:
    """Return what makes the requests of a shard out of those of the run."""
    return Derivation(
        name=f"{generation.name}-requests-{shard.label}",
        builder="requests_slice",
        builder_version=1,
        inputs={"requests": generation.inputs["requests"]},
        args={"first": shard.first, "count": shard.count},
        platform="any",
        outputs=("out", "log"),
        compared=("out",),
    )


def shard_derivation(generation: Derivation, requests: Digest, shard: Shard) -> Derivation:
    """Return the generation of a shard: in all but its requests that of the run.

    Args:
        generation: Of the run.
        requests: What makes the requests of the shard.
        shard: Which.
    """
    return Derivation(
        name=f"{generation.name}-{shard.label}",
        builder=generation.builder,
        builder_version=generation.builder_version,
        inputs={**generation.inputs, "requests": OutputReference(requests, "out")},
        args={name: value for name, value in generation.args.items() if name != SHARD_MEMBER},
        platform=generation.platform,
        outputs=generation.outputs,
        compared=generation.compared,
    )
