"""The JSON Schema of what `dis diff --json` prints about two runs."""

from typing import Any, get_args

from dis_derivations.comparison.causes.manifest_changes import CauseKind, ProvenanceKind
from dis_derivations.comparison.divergence import Choice
from dis_derivations.comparison.examination import Status
from dis_derivations.comparison.report import DIFF_KIND, SCHEMA_VERSION
from dis_derivations.comparison.rules import OBSERVABLES

_DIGEST = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_SHA256 = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 0}
# What JSON does not have is text: NaN, infinities, and integers beyond 2^53-1.
_NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
_STEPS = {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^-?[0-9]+$"}]}
_TEXTS = {"type": "array", "items": _TEXT}


def diff_schema() -> dict[str, Any]:
    """Return the schema; docs/guides/comparing-runs.md says what the fields mean."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Comparison of two runs",
        **_closed(
            {
                "schema_version": {"const": SCHEMA_VERSION},
                "kind": {"const": DIFF_KIND},
                "a": _ref("run"),
                "b": _ref("run"),
                "same": _FLAG,
                "bundles_identical": _FLAG,
                "observables": _closed(
                    {name: {"enum": list(get_args(Status))} for name in OBSERVABLES}
                ),
                "sequences": _sequences(),
                "first_divergence": _or_null(_ref("divergence")),
                "divergences": _list(_ref("divergence")),
                "logit_error": _list(_curve()),
                "logits": _ref("tensors"),
                "activations": _ref("tensors"),
                "engine_trace": _or_null(_trace()),
                "causes": _list(_cause()),
                "provenance": _list(_cause()),
                "text_differences": _list(
                    _closed({"subject": _TEXT, "lines": _TEXTS, "left_out": _COUNT})
                ),
                "manifest_changes": _list(_change({"kind": _kinds()})),
                "notes": _TEXTS,
            },
            optional=("logits", "activations"),
        ),
        "$defs": {
            "run": _run(),
            "token": _token(),
            "side": _side(),
            "divergence": _divergence(),
            "tensors": _tensors(),
        },
    }


def _run() -> dict[str, Any]:
    return _closed(
        {
            "bundle": _or_null(_DIGEST),
            "run_id": _SHA256,
            "manifest_id": _SHA256,
            "lock_id": _SHA256,
            "name": _TEXT,
            "engine": _TEXT,
            "results": _DIGEST,
            "artifact_digests_verified": _FLAG,
        }
    )


def _sequences() -> dict[str, Any]:
    parting = {
        "request_id": _TEXT, "position": _COUNT, "token_a": _or_null(_COUNT), "token_b": _or_null(_COUNT),
        "same_prompt": _FLAG,
    }  # fmt: skip
    return _closed(
        {
            "matched": _COUNT,
            "equal": _COUNT,
            "only_in_a": _TEXTS,
            "only_in_b": _TEXTS,
            "same_order": _FLAG,
            "divergences": _list(_closed(parting)),
        }
    )


def _token() -> dict[str, Any]:
    return _closed({"id": _COUNT, "text": _or_null(_TEXT)})


def _candidate(**more: Any) -> dict[str, Any]:
    return _closed({"id": _COUNT, "text": _or_null(_TEXT), **more})


def _side() -> dict[str, Any]:
    candidate = _candidate(logit=_NUMBER)
    return _closed(
        {
            "dtype": _TEXT,
            "top": _list(candidate),
            "chosen": candidate,
            "runner_up": candidate,
            "margin": _NUMBER,
            "margin_ulp": _or_null(_STEPS),
        }
    )


def _divergence() -> dict[str, Any]:
    shared = _candidate(logit_a=_NUMBER, logit_b=_NUMBER, ulp=_or_null(_STEPS))
    return _closed(
        {
            "request_id": _TEXT,
            "position": _COUNT,
            "token_a": _or_null(_ref("token")),
            "token_b": _or_null(_ref("token")),
            "context": _list(_ref("token")),
            "text_before": _TEXT,
            "text_a": _TEXT,
            "text_b": _TEXT,
            "logits_a": _or_null(_ref("side")),
            "logits_b": _or_null(_ref("side")),
            "shared_logits": _list(shared),
            "same_row": _or_null(_FLAG),
            "choice": _or_null({"enum": list(get_args(Choice))}),
        }
    )


def _curve() -> dict[str, Any]:
    step = {
        "position": _COUNT, "elements_differing": _COUNT, "max_abs_diff": _or_null(_NUMBER),
        "max_ulp": _or_null(_STEPS),
    }  # fmt: skip
    return _closed(
        {"request_id": _TEXT, "tokens_part_at": _or_null(_COUNT), "steps": _list(_closed(step))}
    )


def _tensors() -> dict[str, Any]:
    summary = {
        "request_id": _or_null(_TEXT),
        "tensor": _TEXT,
        "dtype": _TEXT,
        "elements_differing": _COUNT,
        "elements_not_comparable": _COUNT,
        "max_abs_diff": _or_null(_NUMBER),
        "max_ulp": _or_null(_STEPS),
        "reason": _or_null(_TEXT),
    }
    element = {
        "index": _list(_COUNT), "a": _or_null(_NUMBER), "b": _or_null(_NUMBER), "ulp": _or_null(_STEPS),
    }  # fmt: skip
    return _closed(
        {
            "tensors": _COUNT,
            "different_tensors": _COUNT,
            "elements_compared": _COUNT,
            "elements_differing": _COUNT,
            "elements_with_nan": _COUNT,
            "max_abs_diff": _or_null(_NUMBER),
            "max_ulp": _or_null(_STEPS),
            "first_difference": _or_null(
                _closed({**summary, "element": _or_null(_closed(element))})
            ),
            "different": _list(_closed(summary)),
        }
    )


def _trace() -> dict[str, Any]:
    first = _closed({"step": _COUNT, "a": _or_null(_TEXT), "b": _or_null(_TEXT)})
    return _closed(
        {
            "steps_a": _COUNT,
            "steps_b": _COUNT,
            "first_difference": _or_null(first),
            "steps": _list(_change({})),
        }
    )


def _cause() -> dict[str, Any]:
    return _closed(
        {"kind": _kinds(), "statement": _TEXT, "effect": _TEXT, "changes": _list(_change({}))}
    )


def _kinds() -> dict[str, Any]:
    return {"enum": [*get_args(CauseKind), *get_args(ProvenanceKind), "without_effect"]}


def _change(more: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a change, whose old and new value may be anything, or missing."""
    values = {"where": _TEXT, "name": _TEXT, "old": {}, "new": {}, **more}
    return _closed(values, optional=("old", "new"))


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _closed(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the schema of an object that has these fields, all but the optional ones, and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }
