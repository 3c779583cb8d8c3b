"""Choosing a token by chance that anyone can recompute, on any machine.

Chance is a hash of the seed, the request's id and the number of the token, so it depends on no
order and no company. Probabilities are integers, so that sums of them are exact. The whole rule is
in docs/internals/reference-engine.md, as a program.
"""

from fractions import Fraction
from math import ceil, ldexp

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from dis_derivations.engines.protocol import Sampling
from dis_derivations.engines.reference.elementary_functions import LOG2E_STEPS, halve_by_steps
from dis_derivations.engines.reference.fixed_point import Floats

MOST_TOKENS = 1 << 22
"""The largest vocabulary whose weights have a sum that an int64 holds."""

_WEIGHT_BITS = 40
_CHANCE_BITS = 128
_PURPOSE = "dis sampling 1"

Integers = NDArray[np.int64]


def choose_token(logits: Floats, sampling: Sampling, request_id: str, number: int) -> int:
    """Return the token that follows.

    Args:
        logits: Of one position: [vocabulary].
        sampling: With a temperature above 0 it must have a seed.
        request_id: Whose token it is.
        number: How many output tokens there are before it.
    """
    if sampling.temperature == 0:
        # The first of equal maxima: ties go to the lowest id.
        return int(logits.argmax())
    tokens = _largest(logits, sampling.top_k)
    weights = token_weights(logits[tokens], sampling.temperature)
    if sampling.top_p < 1:
        kept = _nucleus(logits[tokens], weights, sampling.top_p)
        tokens, weights = tokens[kept], weights[kept]
    sums = np.cumsum(weights)
    target = chance(sampling.seed, request_id, number) * int(sums[-1]) >> _CHANCE_BITS
    return int(tokens[np.searchsorted(sums, target, side="right")])


def chance(seed: int | None, request_id: str, number: int) -> int:
    """Return 128 bits that nothing but the arguments decides."""
    key = f"{_PURPOSE}\n{seed}\n{number}\n{request_id}".encode()
    return int.from_bytes(blake3(key).digest()[: _CHANCE_BITS // 8], "big")


def token_weights(logits: Floats, temperature: float) -> Integers:
    """Return exp((logit - largest) / temperature) in units of 2^-40."""
    distances = logits.max() - logits
    distances /= temperature
    distances *= LOG2E_STEPS
    weights = halve_by_steps(distances)
    weights *= ldexp(1.0, _WEIGHT_BITS)
    return np.rint(weights, out=weights).astype(np.int64)


def _largest(logits: Floats, count: int) -> NDArray[np.intp]:
    """Return in order the tokens with the `count` largest logits, of equal ones the lowest."""
    if not 0 < count < len(logits):
        return np.arange(len(logits))
    least = np.partition(logits, -count)[-count]
    chosen = logits > least
    equal = np.flatnonzero(logits == least)
    chosen[equal[: count - np.count_nonzero(chosen)]] = True
    return np.flatnonzero(chosen)


def _nucleus(logits: Floats, weights: Integers, share: float) -> NDArray[np.intp]:
    """Return in order the fewest tokens, the likeliest first, that have this share of all."""
    order = np.argsort(0.0 - logits, kind="stable")
    sums = np.cumsum(weights[order])
    needed = ceil(Fraction(share) * int(sums[-1]))
    chosen = np.zeros(len(logits), dtype=np.bool_)
    chosen[order[: np.searchsorted(sums, needed) + 1]] = True
    return np.flatnonzero(chosen)
