"""The parts of a comparison as JSON, shared by the reports of `diff` and `verify`.

What JSON does not have is written as text: NaN, infinities, and integers beyond 2^53-1.
"""

from collections.abc import Sequence
from math import isfinite, isinf
from typing import TYPE_CHECKING, Any

from dis_derivations.comparison.examination import Examination
from dis_derivations.comparison.sequences import Alignment
from dis_derivations.comparison.tensors.comparison import TensorDifference, TensorsComparison
from dis_derivations.comparison.tensors.differences import ElementDifference

if TYPE_CHECKING:
    from dis_derivations.comparison.divergence import (
        Candidate,
        Divergence,
        SharedLogit,
        SideLogits,
        Token,
    )
    from dis_derivations.comparison.tensors.error_curve import ErrorCurve

_MAX_SAFE_INTEGER = 2**53 - 1


def sequences_json(alignment: Alignment) -> dict[str, Any]:
    """Return the summary of all sequences, and where each pair parts."""
    return {
        "matched": len(alignment.pairs),
        "equal": len(alignment.pairs) - len(alignment.parted),
        "only_in_a": list(alignment.only_a),
        "only_in_b": list(alignment.only_b),
        "same_order": alignment.same_order,
        "divergences": [
            {
                "request_id": pair.a.id,
                "position": pair.output_common,
                "token_a": pair.token_a,
                "token_b": pair.token_b,
                "same_prompt": pair.same_prompt,
            }
            for pair in alignment.parted
        ],
    }


def divergence_json(divergence: "Divergence") -> dict[str, Any]:
    """Return the first divergence in full."""
    return {
        "request_id": divergence.request,
        "position": divergence.position,
        "token_a": _token_json(divergence.token_a),
        "token_b": _token_json(divergence.token_b),
        "context": [_token_json(token) for token in divergence.context],
        "text_before": divergence.text_before,
        "text_a": divergence.text_a,
        "text_b": divergence.text_b,
        "logits_a": _side_json(divergence.logits_a),
        "logits_b": _side_json(divergence.logits_b),
        "shared_logits": [_shared_json(shared) for shared in divergence.shared],
        "same_row": divergence.same_row,
        "choice": divergence.choice,
    }


def curve_json(curve: "ErrorCurve") -> dict[str, Any]:
    """Return how the logits of a sequence part, step by step."""
    return {
        "request_id": curve.request,
        "tokens_part_at": curve.parts_at,
        "steps": [
            {
                "position": step.position,
                "elements_differing": step.differing,
                "max_abs_diff": number_json(step.max_abs),
                "max_ulp": integer_json(step.max_ulp),
            }
            for step in curve.steps
        ],
    }


def tensors_json(comparison: TensorsComparison) -> dict[str, Any]:
    """Return the comparison of an observable made of tensors."""
    total, first = comparison.total, comparison.first
    return {
        "tensors": comparison.tensors,
        "different_tensors": len(comparison.different),
        "elements_compared": total.compared,
        "elements_differing": total.differing,
        "elements_with_nan": total.nan,
        "max_abs_diff": number_json(total.max_abs),
        "max_ulp": integer_json(total.max_ulp),
        "first_difference": None if first is None else _tensor_json(first),
        "different": [_summary_json(each) for each in comparison.different],
    }


def trace_json(examination: Examination) -> dict[str, Any] | None:
    """Return the comparison of the engine traces; None unless both runs have one."""
    trace = examination.trace
    if trace is None:
        return None
    return {
        "steps_a": trace.steps_a,
        "steps_b": trace.steps_b,
        "first_difference": None
        if trace.first is None
        else {"step": trace.first, "a": trace.line_a, "b": trace.line_b},
        "steps": [change.to_json() for change in trace.changes],
    }


def number_json(value: float | None) -> float | str | None:
    """Return a float as JSON has it, and what JSON does not have as text."""
    if value is None or isfinite(value):
        return value
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return "NaN"


def integer_json(value: int | None) -> int | str | None:
    """Return an integer, as decimal text where it is beyond 2^53-1 (a distance between float64 numbers may be)."""
    return value if value is None or value <= _MAX_SAFE_INTEGER else str(value)


def tensor_index(element: int, shape: Sequence[int]) -> list[int]:
    """Return the index of a row-major element; its first number is the row, a position of the sequence."""
    index: list[int] = []
    for size in reversed(shape):
        element, place = divmod(element, size)
        index.append(place)
    return index[::-1]


def _tensor_json(difference: TensorDifference) -> dict[str, Any]:
    first = difference.found.first
    return {
        **_summary_json(difference),
        "element": None if first is None else _element_json(first, difference.shape),
    }


def _summary_json(difference: TensorDifference) -> dict[str, Any]:
    return {
        "request_id": difference.name.request,
        "tensor": difference.name.part,
        "dtype": difference.dtype,
        "elements_differing": difference.found.differing,
        "elements_not_comparable": difference.uncompared,
        "max_abs_diff": number_json(difference.found.max_abs),
        "max_ulp": integer_json(difference.found.max_ulp),
        "reason": difference.reason,
    }


def _element_json(first: ElementDifference, shape: Sequence[int]) -> dict[str, Any]:
    return {
        "index": tensor_index(first.element, shape),
        "a": number_json(first.a),
        "b": number_json(first.b),
        "ulp": integer_json(first.ulp),
    }


def _token_json(token: "Token | None") -> dict[str, Any] | None:
    return None if token is None else {"id": token.id, "text": token.text}


def _candidate_json(candidate: "Candidate") -> dict[str, Any]:
    return {
        "id": candidate.token.id,
        "text": candidate.token.text,
        "logit": number_json(candidate.logit),
    }


def _side_json(side: "SideLogits | None") -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "dtype": side.dtype,
        "top": [_candidate_json(candidate) for candidate in side.top],
        "chosen": _candidate_json(side.chosen),
        "runner_up": _candidate_json(side.runner_up),
        "margin": number_json(side.margin),
        "margin_ulp": integer_json(side.margin_ulp),
    }


def _shared_json(shared: "SharedLogit") -> dict[str, Any]:
    return {
        "id": shared.token.id,
        "text": shared.token.text,
        "logit_a": number_json(shared.a),
        "logit_b": number_json(shared.b),
        "ulp": integer_json(shared.ulp),
    }
