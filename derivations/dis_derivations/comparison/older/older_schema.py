"""The JSON Schema of what `dis diff --json` prints where a run is of the older tool."""

from typing import Any, get_args

from dis_derivations.comparison.causes.manifest_changes import CAUSE_KINDS
from dis_derivations.comparison.older.report import (
    OLDER_DIFF_KIND,
    SCHEMA_VERSION,
    Finding,
    Standing,
    Verdict,
)
from dis_derivations.comparison.older.side import DIS
from dis_derivations.comparison.schema_parts import change, definitions, sequences
from dis_derivations.comparison.schema_terms import (
    DIGEST,
    FLAG,
    TEXT,
    TEXTS,
    closed,
    document,
    list_of,
    or_null,
    ref,
)
from dis_derivations.runs.bundle import OLDER_TOOL

_OBSERVABLES = ("tokens", "prompts", "texts", "logits", "activations", "engine_trace")


def older_schema() -> dict[str, Any]:
    """Return the schema; docs/reference/coming-from-deterministic-inference.md says what the fields mean."""
    observed = closed({"status": {"enum": list(get_args(Finding))}, "account": TEXT})
    subject = closed(
        {
            "subject": TEXT,
            "standing": {"enum": list(get_args(Standing))},
            "account": TEXT,
            "changes": list_of(change({})),
        }
    )
    return document(
        "Comparison with a run of the older tool",
        {
            "schema_version": {"const": SCHEMA_VERSION},
            "kind": {"const": OLDER_DIFF_KIND},
            "a": _run(),
            "b": _run(),
            "same": FLAG,
            "verdict": {"enum": list(get_args(Verdict))},
            "observables": closed(dict.fromkeys(_OBSERVABLES, observed)),
            "sequences": sequences(),
            "first_divergence": or_null(ref("divergence")),
            "divergences": list_of(ref("divergence")),
            "upstream": list_of(subject),
            "manifest_changes": list_of(change({"kind": {"enum": list(CAUSE_KINDS)}})),
            "notes": TEXTS,
        },
        definitions=definitions("token", "side", "divergence"),
    )


def _run() -> dict[str, Any]:
    return closed(
        {
            "tool": {"enum": [DIS, OLDER_TOOL]},
            "bundle": or_null(DIGEST),
            "run_id": TEXT,
            "manifest_id": TEXT,
            "lock_id": TEXT,
            "name": TEXT,
            "model": TEXT,
            "engine": or_null(TEXT),
            "grade": TEXT,
            "artifact_digests_verified": FLAG,
        }
    )
