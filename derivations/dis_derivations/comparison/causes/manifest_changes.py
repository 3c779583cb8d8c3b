"""What a change of each manifest field is about: which cause it belongs to, or that it cannot change bits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from dis_derivations.comparison.causes.json_changes import Change, json_changes

CauseKind = Literal[
    "weights",
    "config",
    "tokenizer",
    "chat_template",
    "requests",
    "engine",
    "batching",
    "software",
    "closure",
    "platform",
    "capture",
]
# From most to least likely to change bits.
CAUSE_KINDS: tuple[CauseKind, ...] = get_args(CauseKind)
ProvenanceKind = Literal["description", "source", "rules", "policy", "extension", "other"]

# The longest matching beginning decides. What is not listed is not known to be harmless, so it counts as the engine's.
_KINDS: Mapping[str, CauseKind | ProvenanceKind] = {
    "": "engine",
    "/schema_version": "other",
    "/kind": "other",
    "/metadata": "description",
    "/determinism": "policy",
    "/determinism/compare": "rules",
    "/hardware": "policy",
    "/software_stack": "software",
    "/cuda_stack": "software",
    "/cuda_stack/driver_policy": "policy",
    "/runtime": "software",
    "/runtime/network_policy": "policy",
    "/runtime/profile": "policy",
    "/runtime/execution/backend": "engine",
    "/runtime/execution/timeout_seconds": "policy",
    "/vllm": "engine",
    "/model/weights": "weights",
    "/model/weights/source": "source",
    "/model/weights/source/remote_code_commit": "weights",
    "/model/weights/source/remote_code_digest": "weights",
    "/model/adapters": "weights",
    "/model/config": "config",
    "/model/config/source": "source",
    "/model/tokenizer": "tokenizer",
    "/model/tokenizer/source": "source",
    "/model/chat_template": "chat_template",
    "/model/chat_template/source": "source",
    "/inference": "requests",
    "/inference/dataset/source": "source",
    "/inference/batching": "batching",
    "/capture": "capture",
}


@dataclass(frozen=True)
class ManifestChange:
    """A manifest field that is not the same in A and in B, with what it is about."""

    change: Change
    kind: CauseKind | ProvenanceKind


def manifest_changes(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[ManifestChange, ...]:
    """Return every changed field of two manifests as they were used, in the order of their names."""
    changes = json_changes("manifest", dict(a), dict(b))
    return tuple(ManifestChange(change, kind_of(change.name)) for change in changes)


def kind_of(pointer: str) -> CauseKind | ProvenanceKind:
    """Return what the field at a JSON Pointer is about."""
    parts = pointer.split("/")
    # Below `env` names are those of environment variables, whatever they look like.
    if any(part.startswith("x_") for part in parts) and "env" not in parts:
        return "extension"
    beginnings = ("/".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next(_KINDS[beginning] for beginning in beginnings if beginning in _KINDS)
