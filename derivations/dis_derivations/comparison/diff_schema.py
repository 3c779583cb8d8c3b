"""The JSON Schema of what `dis diff --json` prints about two runs."""

from typing import Any, get_args

from dis_derivations.comparison.examination import Status
from dis_derivations.comparison.report import DIFF_KIND, SCHEMA_VERSION
from dis_derivations.comparison.rules import OBSERVABLES
from dis_derivations.comparison.schema_parts import (
    cause,
    change,
    curve,
    definitions,
    image_packages,
    kinds,
    sequences,
    trace,
)  # fmt: skip
from dis_derivations.comparison.schema_terms import (
    COUNT,
    FLAG,
    TEXT,
    TEXTS,
    closed,
    document,
    list_of,
    or_null,
    ref,
)  # fmt: skip


def diff_schema() -> dict[str, Any]:
    """Return the schema; docs/guides/comparing-runs.md says what the fields mean."""
    return document(
        "Comparison of two runs",
        {
            "schema_version": {"const": SCHEMA_VERSION},
            "kind": {"const": DIFF_KIND},
            "a": ref("run"),
            "b": ref("run"),
            "same": FLAG,
            "bundles_identical": FLAG,
            "observables": closed({name: {"enum": list(get_args(Status))} for name in OBSERVABLES}),
            "sequences": sequences(),
            "first_divergence": or_null(ref("divergence")),
            "divergences": list_of(ref("divergence")),
            "logit_error": list_of(curve()),
            "logits": ref("tensors"),
            "activations": ref("tensors"),
            "engine_trace": or_null(trace()),
            "causes": list_of(cause()),
            "provenance": list_of(cause()),
            "text_differences": list_of(
                closed({"subject": TEXT, "lines": TEXTS, "left_out": COUNT})
            ),
            "image_packages": or_null(image_packages()),
            "manifest_changes": list_of(change({"kind": kinds()})),
            "notes": TEXTS,
        },
        optional=("logits", "activations"),
        definitions=definitions("run", "token", "side", "divergence", "tensors"),
    )
