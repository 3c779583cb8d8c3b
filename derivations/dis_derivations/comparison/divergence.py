"""Where two runs part, as values."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Choice = Literal["exact tie", "near tie", "real change", "sampled", "same logits"]


@dataclass(frozen=True)
class Token:
    """A token as id and, where the tokenizer is at hand, as text."""

    id: int
    text: str | None


@dataclass(frozen=True)
class Candidate:
    """A token with its logit, exact in the captured dtype."""

    token: Token
    logit: float


@dataclass(frozen=True)
class SideLogits:
    """One run's logits where the runs part.

    Attributes:
        dtype: Of the capture.
        top: The largest, lowest id first among equals.
        chosen: The token that the run chose.
        runner_up: The best of all others.
        margin: Chosen minus runner-up: 0 is a tie, less than 0 means that sampling chose.
        margin_ulp: The steps between the two logits; None when one is NaN.
    """

    dtype: str
    top: tuple[Candidate, ...]
    chosen: Candidate
    runner_up: Candidate
    margin: float
    margin_ulp: int | None


@dataclass(frozen=True)
class SharedLogit:
    """The logit of one token in both runs, and the steps between (None for NaN or different dtypes)."""

    token: Token
    a: float
    b: float
    ulp: int | None


@dataclass(frozen=True)
class Divergence:
    """Where the outputs of one request part.

    Attributes:
        request: The request's id.
        position: The place in the output, from 0.
        token_a: A's token; None where A has ended.
        token_b: B's token; None where B has ended.
        context: The last tokens before, prompt and output.
        text_before: The end of the text that both outputs begin with.
        text_a: How A's text goes on.
        text_b: How B's text goes on.
        logits_a: None where the full logits were not captured.
        logits_b: None where the full logits were not captured.
        shared: Both chosen tokens' logits in both runs; none where the prompts are not the same.
        same_row: Whether the two rows of logits are equal in every bit; None where they cannot be compared.
        choice: How close the choice was; None where the logits were not captured, or the prompts are not the same.
    """

    request: str
    position: int
    token_a: Token | None
    token_b: Token | None
    context: tuple[Token, ...]
    text_before: str
    text_a: str
    text_b: str
    logits_a: SideLogits | None = None
    logits_b: SideLogits | None = None
    shared: tuple[SharedLogit, ...] = ()
    same_row: bool | None = None
    choice: Choice | None = None


def earliest(divergences: Iterable[Divergence]) -> Divergence | None:
    """Return the one at the earliest position, the first of these; None of none."""
    return min(divergences, key=lambda each: each.position, default=None)
