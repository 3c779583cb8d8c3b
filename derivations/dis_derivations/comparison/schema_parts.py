"""Parts that the JSON Schemas of several reports share; a `$ref` of one names its entry in `definitions`."""

from typing import Any, get_args

from dis_derivations.comparison.causes.manifest_changes import CauseKind, ProvenanceKind
from dis_derivations.comparison.divergence import Choice
from dis_derivations.comparison.schema_terms import (
    COUNT,
    DIGEST,
    FLAG,
    NUMBER,
    SHA256,
    STEPS,
    TEXT,
    TEXTS,
    closed,
    list_of,
    or_null,
    ref,
)  # fmt: skip
from dis_derivations.images.contents.package_lists import SYSTEMS


def definitions(*names: str) -> dict[str, Any]:
    """Return what a document defines of: `run`, `token`, `side`, `divergence`, `tensors`."""
    known = {
        "run": run_of_dis,
        "token": token,
        "side": side,
        "divergence": divergence,
        "tensors": tensors,
    }
    return {name: known[name]() for name in names}


def run_of_dis() -> dict[str, Any]:
    """Return how a report names a run of dis."""
    return closed(
        {
            "bundle": or_null(DIGEST),
            "run_id": SHA256,
            "manifest_id": SHA256,
            "lock_id": SHA256,
            "name": TEXT,
            "engine": TEXT,
            "results": DIGEST,
            "artifact_digests_verified": FLAG,
        }
    )


def sequences() -> dict[str, Any]:
    """Return how the sequences were matched, and where each part."""
    parting = {
        "request_id": TEXT, "position": COUNT, "token_a": or_null(COUNT), "token_b": or_null(COUNT),
        "same_prompt": FLAG,
    }  # fmt: skip
    return closed(
        {
            "matched": COUNT,
            "equal": COUNT,
            "only_in_a": TEXTS,
            "only_in_b": TEXTS,
            "same_order": FLAG,
            "divergences": list_of(closed(parting)),
        }
    )


def token() -> dict[str, Any]:
    """Return a token, with its text where that is known."""
    return closed({"id": COUNT, "text": or_null(TEXT)})


def candidate(**more: Any) -> dict[str, Any]:
    """Return a token and what is said of it."""
    return closed({"id": COUNT, "text": or_null(TEXT), **more})


def side() -> dict[str, Any]:
    """Return the logits of a run where two part."""
    ranked = candidate(logit=NUMBER)
    return closed(
        {
            "dtype": TEXT,
            "top": list_of(ranked),
            "chosen": ranked,
            "runner_up": ranked,
            "margin": NUMBER,
            "margin_ulp": or_null(STEPS),
        }
    )


def divergence() -> dict[str, Any]:
    """Return where two sequences part."""
    shared = candidate(logit_a=NUMBER, logit_b=NUMBER, ulp=or_null(STEPS))
    return closed(
        {
            "request_id": TEXT,
            "position": COUNT,
            "token_a": or_null(ref("token")),
            "token_b": or_null(ref("token")),
            "context": list_of(ref("token")),
            "text_before": TEXT,
            "text_a": TEXT,
            "text_b": TEXT,
            "logits_a": or_null(ref("side")),
            "logits_b": or_null(ref("side")),
            "shared_logits": list_of(shared),
            "same_row": or_null(FLAG),
            "choice": or_null({"enum": list(get_args(Choice))}),
        }
    )


def curve() -> dict[str, Any]:
    """Return how the logits of a sequence part."""
    step = {
        "position": COUNT, "elements_differing": COUNT, "max_abs_diff": or_null(NUMBER),
        "max_ulp": or_null(STEPS),
    }  # fmt: skip
    return closed(
        {"request_id": TEXT, "tokens_part_at": or_null(COUNT), "steps": list_of(closed(step))}
    )


def tensors() -> dict[str, Any]:
    """Return a comparison of tensors."""
    summary = {
        "request_id": or_null(TEXT),
        "tensor": TEXT,
        "dtype": TEXT,
        "elements_differing": COUNT,
        "elements_not_comparable": COUNT,
        "max_abs_diff": or_null(NUMBER),
        "max_ulp": or_null(STEPS),
        "reason": or_null(TEXT),
    }
    element = {
        "index": list_of(COUNT), "a": or_null(NUMBER), "b": or_null(NUMBER), "ulp": or_null(STEPS),
    }  # fmt: skip
    return closed(
        {
            "tensors": or_null(COUNT),
            "different_tensors": COUNT,
            "elements_compared": COUNT,
            "elements_differing": COUNT,
            "elements_with_nan": COUNT,
            "max_abs_diff": or_null(NUMBER),
            "max_ulp": or_null(STEPS),
            "first_difference": or_null(closed({**summary, "element": or_null(closed(element))})),
            "different": list_of(closed(summary)),
        }
    )


def trace() -> dict[str, Any]:
    """Return a comparison of engine traces."""
    first = closed({"step": COUNT, "a": or_null(TEXT), "b": or_null(TEXT)})
    return closed(
        {
            "steps_a": COUNT,
            "steps_b": COUNT,
            "first_difference": or_null(first),
            "steps": list_of(change({})),
        }
    )


def cause() -> dict[str, Any]:
    """Return what differs upstream."""
    return closed(
        {"kind": kinds(), "statement": TEXT, "effect": TEXT, "changes": list_of(change({}))}
    )


def image_packages() -> dict[str, Any]:
    """Return which packages of two images are not the same."""
    package = {
        "system": {"enum": list(SYSTEMS)}, "name": TEXT, "old": TEXTS, "new": TEXTS, "effect": TEXT,
    }  # fmt: skip
    return closed(
        {
            "changed": COUNT,
            "added": COUNT,
            "removed": COUNT,
            "packages": list_of(closed(package)),
            "left_out": COUNT,
            "unread": TEXTS,
        }
    )


def kinds() -> dict[str, Any]:
    """Return the kinds of causes."""
    return {"enum": [*get_args(CauseKind), *get_args(ProvenanceKind), "without_effect"]}


def change(more: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a change, whose old and new value may be anything, or missing."""
    values = {"where": TEXT, "name": TEXT, "old": {}, "new": {}, **more}
    return closed(values, optional=("old", "new"))
