"""The run log of a run whose digests were not verified: that of its generation, which may know of none, put right."""

from collections.abc import Mapping
from typing import Any

from dis_derivations.lock.unverified_digests import MEMBER


def unverified_run_log(
    document: Mapping[str, Any], unverified: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `run_log.json` with an `artifact_integrity` in which no file counts as verified.

    Each locked file is an entry with the artifact's `name`, the digest that the lock has `declared` and the one that
    was `used`. What the generation recorded of a file stands beside that.

    Args:
        document: The run log of the generation.
        unverified: `artifact_digests` of the bundle.
    """
    recorded = {entry["path"]: entry for entry in document["artifact_integrity"]}
    entries = [
        {**recorded.get(file["path"], {}), **file, "verified": False}
        for file in unverified["files"]
    ]
    locked = {file["path"] for file in unverified["files"]}
    others = [entry for path, entry in recorded.items() if path not in locked]
    return {
        **document,
        MEMBER: {"verified": False},
        "artifact_integrity": [*entries, *others],
    }
