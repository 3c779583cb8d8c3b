"""The JSON Schema of what `dis diff --json` prints of manifests, locks, and objects that are no runs and no weights."""

from typing import Any

from dis_derivations.comparison.documents.report import DOCUMENTS_DIFF_KIND, SCHEMA_VERSION
from dis_derivations.comparison.schema_parts import change, image_packages
from dis_derivations.comparison.schema_terms import (
    COUNT,
    FLAG,
    TEXT,
    TEXTS,
    closed,
    document,
    list_of,
    or_null,
)


def documents_schema() -> dict[str, Any]:
    """Return the schema; docs/guides/comparing-runs.md says what the fields mean."""
    group = closed({"kind": TEXT, "matters": FLAG, "changes": list_of(change({}))})
    text = closed({"subject": TEXT, "lines": TEXTS, "left_out": COUNT})
    return document(
        "Comparison of two manifests, locks or objects",
        {
            "schema_version": {"const": SCHEMA_VERSION},
            "kind": {"const": DOCUMENTS_DIFF_KIND},
            "subject": TEXT,
            "a": TEXT,
            "b": TEXT,
            "same": FLAG,
            "identical": FLAG,
            "groups": list_of(group),
            "text_differences": list_of(text),
            "image_packages": or_null(image_packages()),
        },
    )
