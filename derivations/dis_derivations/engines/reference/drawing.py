"""Choosing a token from logits, where chance is given as a number: the part of sampling that is arithmetic alone.

Probabilities are integers, so that sums of them are exact. It needs numpy and its two neighbours in this package: the
worker of transformers, where dis is not installed, has these three files beside it.
"""

from fractions import Fraction
from math import ceil, ldexp

import numpy as np
from numpy.typing import NDArray

from dis_derivations.engines.reference.elementary_functions import LOG2E_STEPS, halve_by_steps
from dis_derivations.engines.reference.fixed_point import Floats

MOST_TOKENS = 1 << 22
"""The largest vocabulary whose weights have a sum that an int64 holds."""

CHANCE_BITS = 128
_WEIGHT_BITS = 40

Integers = NDArray[np.int64]


def draw(logits: Floats, drawn: int, *, temperature: float, top_p: float, top_k: int) -> int:
    """Return the token that chance points to.

    Args:
        logits: Of one position: [vocabulary], at most `MOST_TOKENS` of them.
        drawn: `CHANCE_BITS` bits of chance.
        temperature: Above 0.
        top_p: The share of probability from which a token is drawn.
        top_k: From how many tokens one is drawn; 0 and -1: all.
    """
    tokens = _largest(logits, top_k)
    weights = token_weights(logits[tokens], temperature)
    if top_p < 1:
        kept = _nucleus(logits[tokens], weights, top_p)
        tokens, weights = tokens[kept], weights[kept]
    sums = np.cumsum(weights)
    target = drawn * int(sums[-1]) >> CHANCE_BITS
    return int(tokens[np.searchsorted(sums, target, side="right")])


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
