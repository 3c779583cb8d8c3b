"""The JSON Schema of what `dis bisect --json` prints: a bisection, or with `--dry-run` its plan."""

from typing import Any, get_args

from dis_derivations.bisection.delta_debugging import Outcome
from dis_derivations.bisection.report import BISECTION_KIND, SCHEMA_VERSION, Verdict
from dis_derivations.comparison.rules import OBSERVABLES
from dis_derivations.comparison.schema_parts import change, definitions
from dis_derivations.comparison.schema_terms import (
    COUNT,
    DIALECT,
    DIGEST,
    FLAG,
    TEXT,
    TEXTS,
    closed,
    list_of,
    or_null,
    ref,
)


def bisection_schema() -> dict[str, Any]:
    """Return the schema; docs/guides/bisecting.md says what the fields mean."""
    return {
        "$schema": DIALECT,
        "title": "Bisection of two runs",
        "anyOf": [_bisection(), _plan()],
        "$defs": definitions("run"),
    }


def _bisection() -> dict[str, Any]:
    experiment = closed(
        {
            "from_b": TEXTS,
            "outcome": {"enum": list(get_args(Outcome))},
            "cached": FLAG,
            "bundle": or_null(DIGEST),
            "detail": TEXT,
        }
    )
    return closed(
        {
            **_head(),
            "verdict": {"enum": list(get_args(Verdict))},
            "guilty": TEXTS,
            "rest": or_null({"enum": list(get_args(Outcome))}),
            "reproduces_a": or_null(FLAG),
            "budget": or_null(COUNT),
            "built": COUNT,
            "experiments": list_of(experiment),
        }
    )


def _plan() -> dict[str, Any]:
    return closed(
        {
            **_head(),
            "dry_run": {"const": True},
            "first_experiments": list_of(closed({"from_b": TEXTS, "cached": or_null(FLAG)})),
            "usual_experiments": COUNT,
            "most_experiments": COUNT,
        }
    )


def _head() -> dict[str, Any]:
    difference = {"name": TEXT, "kind": TEXT, "changes": list_of(change({}))}
    return {
        "schema_version": {"const": SCHEMA_VERSION},
        "kind": {"const": BISECTION_KIND},
        "a": ref("run"),
        "b": ref("run"),
        "observable": {"enum": list(OBSERVABLES)},
        "differences": list_of(closed(difference)),
        "held": list_of(closed({**difference, "reason": TEXT})),
        "without_effect": TEXTS,
    }
