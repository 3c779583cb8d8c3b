"""The JSON Schema of a verdict: `probe.json` in the store."""

from collections.abc import Mapping
from typing import Any, get_args

from dis_derivations.comparison.divergence import Choice
from dis_derivations.comparison.examination import Status
from dis_derivations.engines.vllm.prefix_cache import WARM_CACHE
from dis_derivations.probing.checks import QUESTIONS
from dis_derivations.probing.judging import OBSERVABLES
from dis_derivations.probing.verdict import PROBE_KIND, SCHEMA_VERSION, Answer

_DIGEST = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_SHA256 = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 0}
# What JSON does not have is text: NaN, infinities, and integers beyond 2^53-1.
_NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
_STEPS = {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^-?[0-9]+$"}]}


def probe_schema() -> dict[str, Any]:
    """Return the schema; docs/guides/probing.md says what the fields mean."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Verdict of a probe",
        **_closed(
            {
                "schema_version": {"const": SCHEMA_VERSION},
                "kind": {"const": PROBE_KIND},
                "name": _TEXT,
                "manifest_id": _SHA256,
                "lock_id": _SHA256,
                "engine": _TEXT,
                "platform": _closed({"class": _TEXT, "facts": {"type": "object"}}),
                "baseline": _DIGEST,
                "holds": _FLAG,
                "checks": {"type": "array", "items": _check()},
            }
        ),
    }


def _check() -> dict[str, Any]:
    failed = _closed({"experiment": _experiment(), "reason": _TEXT})
    return _closed(
        {
            "check": {"enum": list(QUESTIONS)},
            "question": _TEXT,
            "answer": {"enum": list(get_args(Answer))},
            "reason": _or_null(_TEXT),
            "experiment": _or_null(_experiment()),
            "failed_experiments": {"type": "array", "items": failed},
            "bundle": _or_null(_DIGEST),
            "comparison": _or_null(_comparison()),
            "prefix_cache": _or_null(_prefix_cache()),
        }
    )


def _experiment() -> dict[str, Any]:
    variables = {"type": "object", "additionalProperties": _TEXT}
    return {
        "anyOf": [
            _closed(
                {"kind": {"const": "manifest"}, "fields": {"type": "object"}, "reordered": _FLAG}
            ),
            _closed({"kind": {"enum": ["same process", "new process"]}, "variables": variables}),
            _closed({"kind": {"const": WARM_CACHE}, "fields": {"type": "object"}}),
        ]
    }


def _prefix_cache() -> dict[str, Any]:
    return _closed(
        {
            "uncached_bundle": _DIGEST,
            "first_bundle": _DIGEST,
            "first_cached_tokens": _COUNT,
            "cached_tokens": _COUNT,
            "comparison": _comparison(),
        }
    )


def _comparison() -> dict[str, Any]:
    tokens = _closed(
        {
            "request_id": _TEXT,
            "position": _COUNT,
            "token_a": _or_null(_COUNT),
            "token_b": _or_null(_COUNT),
            "choice": _or_null({"enum": list(get_args(Choice))}),
        }
    )
    tensors = _closed(
        {
            "observable": {"enum": [name for name in OBSERVABLES if name != "tokens"]},
            "request_id": _or_null(_TEXT),
            "part": _TEXT,
            "row": _COUNT,
        }
    )
    step = _closed({"position": _COUNT, "largest": _or_null(_NUMBER)})
    return _closed(
        {
            "observables": _closed(
                {name: {"enum": list(get_args(Status))} for name in OBSERVABLES}
            ),
            "sequences": _COUNT,
            "positions": _COUNT,
            "parted": _COUNT,
            "first_token_divergence": _or_null(tokens),
            "first_tensor_divergence": _or_null(tensors),
            "largest_logit_error": _or_null(_NUMBER),
            "largest_logit_ulp": _or_null(_STEPS),
            "logit_error": {"type": "array", "items": step},
        }
    )


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [dict(schema), {"type": "null"}]}


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
