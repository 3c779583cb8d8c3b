"""The JSON Schema of what `dis verify --json` prints: `verify_report.json`."""

from typing import Any, get_args

from dis_derivations.comparison.examination import Status
from dis_derivations.comparison.rule_outcomes import Outcome
from dis_derivations.comparison.rules import OBSERVABLES, RuleName
from dis_derivations.comparison.schema_parts import cause, definitions, tensors, trace
from dis_derivations.comparison.schema_terms import (
    COUNT,
    FLAG,
    NUMBER,
    SHA256,
    TEXT,
    TEXTS,
    closed,
    document,
    list_of,
    or_null,
    ref,
)
from dis_derivations.comparison.verify_report import SCHEMA_VERSION, VERIFY_KIND, Grade

_ENVIRONMENT = (
    "runtime_closure_digest_match",
    "requests_digest_match",
    "engine_settings_match",
    "hardware_fingerprint_match",
    "manifest_id_match",
    "lock_id_match",
    "compare_rules_match",
)
# Beside what a rule finds stands what the rule was, and what it was applied to.
_HASHES = ("hash_a", "hash_b")


def verify_schema() -> dict[str, Any]:
    """Return the schema; docs/guides/comparing-runs.md says what the fields mean."""
    return document(
        "Grade of a reproduction",
        {
            "schema_version": {"const": SCHEMA_VERSION},
            "kind": {"const": VERIFY_KIND},
            "grade": {"enum": list(get_args(Grade))},
            "outputs_identical": FLAG,
            "bundle_a": ref("run"),
            "bundle_b": ref("run"),
            "comparisons": closed({name: _comparison(name) for name in OBSERVABLES}),
            "hardware": _hardware(),
            "environment_diffs": closed(dict.fromkeys(_ENVIRONMENT, FLAG)),
            "causes": list_of(cause()),
            "provenance": list_of(cause()),
            "notes": TEXTS,
        },
        definitions=definitions("run"),
    )


def _comparison(observable: str) -> dict[str, Any]:
    """Return the schema of one observable; of one that not both runs captured there are no findings."""
    outcome = {
        "outcome": {"enum": list(get_args(Outcome))},
        "status": {"enum": list(get_args(Status))},
        "rules": list_of(_rule()),
        "reason": or_null(TEXT),
        "hash_a": SHA256,
        "hash_b": SHA256,
    }
    if observable == "tokens":
        return closed({**outcome, **_tokens()}, optional=_HASHES)
    found = trace()["properties"] if observable == "engine_trace" else tensors()["properties"]
    if observable != "engine_trace":
        found = {"elements_outside_rules": COUNT, **found}
    return closed({**outcome, **found}, optional=(*_HASHES, *found))


def _rule() -> dict[str, Any]:
    bounds = {"ulp": COUNT, "atol": NUMBER, "rtol": NUMBER}
    return closed({"rule": {"enum": list(get_args(RuleName))}, **bounds}, optional=tuple(bounds))


def _tokens() -> dict[str, Any]:
    divergence = closed(
        {
            "request_id": TEXT,
            "token_step": COUNT,
            "field": {"const": "output_token_ids"},
            "token_a": or_null(COUNT),
            "token_b": or_null(COUNT),
        }
    )
    counts = ("sequences_a", "sequences_b", "compared", "tokens_a", "tokens_b")
    return {
        "exact_match": FLAG,
        "mismatched_sequences": COUNT,
        "missing_in_a": TEXTS,
        "missing_in_b": TEXTS,
        "first_divergence": or_null(divergence),
        "counts": closed(dict.fromkeys(counts, COUNT)),
    }


def _hardware() -> dict[str, Any]:
    run = closed({"conformant": FLAG, "reasons": TEXTS})
    return closed({"constraints_apply": FLAG, "a": run, "b": run, "same_platform": FLAG})
