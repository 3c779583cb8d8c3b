"""Choosing a token by chance that anyone can recompute, on any machine.

Chance is a hash of the seed, the request's id and the number of the token, so it depends on no
order and no company. The whole rule is in docs/internals/reference-engine.md, as a program.
"""

from blake3 import blake3

from dis_derivations.engines.protocol import Sampling
from dis_derivations.engines.reference.drawing import CHANCE_BITS, draw
from dis_derivations.engines.reference.fixed_point import Floats

_PURPOSE = "dis sampling 1"


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
    return draw(
        logits,
        chance(sampling.seed, request_id, number),
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
    )


def chance(seed: int | None, request_id: str, number: int) -> int:
    """Return 128 bits that nothing but the arguments decides."""
    key = f"{_PURPOSE}\n{seed}\n{number}\n{request_id}".encode()
    return int.from_bytes(blake3(key).digest()[: CHANCE_BITS // 8], "big")
