"""The JSON Schema of what `dis diff --json` prints of weights."""

from typing import Any, get_args

from dis_derivations.comparison.schema_terms import (
    COUNT,
    DIGEST,
    FLAG,
    NUMBER,
    STEPS,
    TEXT,
    TEXTS,
    closed,
    document,
    list_of,
    or_null,
)
from dis_derivations.comparison.weights.changes import Arrangement
from dis_derivations.comparison.weights.report import SCHEMA_VERSION, WEIGHTS_DIFF_KIND

_TENSOR = {
    "dtype": TEXT, "shape": list_of(COUNT), "blake3": DIGEST, "file": TEXT, "offset": COUNT, "length": COUNT,
}  # fmt: skip


def weights_schema() -> dict[str, Any]:
    """Return the schema; docs/guides/comparing-runs.md says what the fields mean."""
    side = closed(
        {
            "object": DIGEST,
            "path": TEXT,
            "weights": DIGEST,
            "files": COUNT,
            "tensors": COUNT,
            "bytes": COUNT,
        }
    )
    tensor = closed(_TENSOR)
    share = {"type": "number", "minimum": 0}
    changed = {"name": TEXT, "a": tensor, "b": tensor, "elements": or_null(_elements())}
    renamed = {"name": TEXT, "a": tensor, "b": closed({"name": TEXT, **_TENSOR})}
    return document(
        "Comparison of weights",
        {
            "schema_version": {"const": SCHEMA_VERSION},
            "kind": {"const": WEIGHTS_DIFF_KIND},
            "a": side,
            "b": side,
            "same": FLAG,
            "same_files": FLAG,
            "arrangement": list_of({"enum": list(get_args(Arrangement))}),
            "tensors": COUNT,
            "tensors_differing": COUNT,
            "bytes_differing_share": share,
            "changed": list_of(closed(changed)),
            "renamed": list_of(closed(renamed)),
            "added": list_of(closed({"name": TEXT, "b": tensor})),
            "removed": list_of(closed({"name": TEXT, "a": tensor})),
            "other_files": TEXTS,
        },
    )


def _elements() -> dict[str, Any]:
    """Return how the elements of two tensors differ."""
    return closed(
        {
            "compared": COUNT,
            "differing": COUNT,
            "with_nan": COUNT,
            "bits_differing": COUNT,
            "max_abs_diff": or_null(NUMBER),
            "max_ulp": or_null(STEPS),
        }
    )
