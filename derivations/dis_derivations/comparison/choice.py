"""How close a choice between two tokens was: a tie, nearly one, or none at all."""

import numpy as np

from dis_derivations.comparison.decode_logits import LogitsRow
from dis_derivations.comparison.divergence import Choice

# The stored fraction of bfloat16, the coarsest format in which models commonly compute logits.
_BFLOAT16_FRACTION = 7


def choice_of(
    a: LogitsRow | None,
    b: LogitsRow | None,
    tokens: tuple[int | None, int | None],
    *,
    same_row: bool | None,
) -> Choice | None:
    """Return how close the choice was by which two runs part.

    `same logits`: every bit of both rows is the same, so sampling chose. `sampled`: a run took a token whose logit was
    not the largest. `exact tie`: in one of the runs the two tokens have equal logits. `near tie`: in both runs the two
    logits are no further apart than neighbours in bfloat16 would be at their size. `real change`: all others.

    Args:
        a: A's logits where the two part; None where they were not captured.
        b: B's.
        tokens: What A and B chose; None for one that had ended.
        same_row: Whether the rows are equal in every bit.

    Returns:
        None where the logits of a run, or a token, are missing.
    """
    if same_row:
        return "same logits"
    token_a, token_b = tokens
    if a is None or b is None or token_a is None or token_b is None:
        return None
    if max(token_a, token_b) >= min(len(a.values), len(b.values)):
        return None
    if any(
        row.values[token] < row.values[row.best(1)[0]]
        for row, token in ((a, token_a), (b, token_b))
    ):
        return "sampled"
    gaps = [_gap(row, token_a, token_b) for row in (a, b)]
    if any(gap == 0 for gap, _ in gaps):
        return "exact tie"
    return "near tie" if all(gap <= step for gap, step in gaps) else "real change"


def _gap(row: LogitsRow, one: int, other: int) -> tuple[float, float]:
    """Return how far two logits are apart, and the step of bfloat16 at the larger of them."""
    left, right = float(row.values[one]), float(row.values[other])
    with np.errstate(invalid="ignore"):
        gap = abs(left - right)
    _, exponent = np.frexp(max(abs(left), abs(right)))
    return gap, float(np.ldexp(1.0, int(exponent) - 1 - _BFLOAT16_FRACTION))
