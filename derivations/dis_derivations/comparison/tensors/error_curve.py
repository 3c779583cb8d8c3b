"""The error of the logits of one sequence, step by step."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StepError:
    """The difference of the logits at one position.

    Attributes:
        position: The place in the output, from 0.
        differing: How many logits differ in bits.
        max_abs: The largest difference; None when no pair of finite numbers differs.
        max_ulp: The largest distance; None when no pair of numbers differs.
    """

    position: int
    differing: int
    max_abs: float | None
    max_ulp: int | None


@dataclass(frozen=True)
class ErrorCurve:
    """The differences of one sequence's logits while both runs saw the same tokens.

    Attributes:
        request: The request's id.
        steps: From the first position whose logits differ; before it they are equal in every bit.
        parts_at: Where the tokens part; None where they never do.
    """

    request: str
    steps: tuple[StepError, ...]
    parts_at: int | None
