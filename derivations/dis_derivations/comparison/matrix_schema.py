"""The JSON Schema of what `dis diff --matrix --json` prints."""

from typing import Any

from dis_derivations.comparison.matrix import MATRIX_KIND, SCHEMA_VERSION
from dis_derivations.comparison.rules import OBSERVABLES
from dis_derivations.comparison.schema_parts import run_of_dis
from dis_derivations.comparison.schema_terms import (
    COUNT,
    FLAG,
    TEXT,
    closed,
    document,
    list_of,
    or_null,
)


def matrix_schema() -> dict[str, Any]:
    """Return the schema; docs/guides/comparing-runs.md says what the fields mean."""
    run = run_of_dis()
    named = closed({"ref": TEXT, **run["properties"]})
    parting = closed(
        {
            "cluster": COUNT,
            "observables": list_of({"enum": list(OBSERVABLES)}),
            "sequences": COUNT,
            "first": or_null(closed({"request_id": TEXT, "position": COUNT})),
        }
    )
    return document(
        "Comparison of many runs",
        {
            "schema_version": {"const": SCHEMA_VERSION},
            "kind": {"const": MATRIX_KIND},
            "same": FLAG,
            "runs": list_of(named),
            "clusters": list_of(list_of(COUNT)),
            "token_clusters": list_of(list_of(COUNT)),
            "partings": list_of(parting),
        },
    )
