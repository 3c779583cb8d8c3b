"""The manifests of experiments: that of the user with what a check changes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from dis_derivations.engines.protocol import Request
from dis_derivations.engines.registry import engine_kind
from dis_derivations.graph.compilation import batching, capture_plan
from dis_derivations.lock.document import Lock
from dis_derivations.manifest.artifact_groups import DATASET
from dis_derivations.manifest.loading import LoadedManifest, validate
from dis_derivations.manifest.overrides import Override, apply_override
from dis_derivations.probing.experiment import Variation
from dis_derivations.runs.recording import CHOSEN_ONLY

_OF_A_DATASET = ("n_prompts", "request_template", "dataset")


def probed(loaded: LoadedManifest) -> LoadedManifest:
    """Return the manifest whose run the others are compared with.

    It captures the logits that tokens were chosen from, which show more than tokens do. For an engine whose results
    are not remembered by their batches it has the trace of these as well, so that another batch is another build.

    Raises:
        InvalidManifestError: A field does not go with what is captured.
    """
    document = loaded.document
    capture, fields = capture_plan(document["capture"]), dict[str, Any]()
    logits = capture["logits"]
    if logits is None or logits["scope"] == CHOSEN_ONLY or not logits["decode"]:
        asked = document["capture"].get("logits", {})
        whole = {"enabled": True, "scope": "full", "capture_decode": True}
        fields["/capture/logits"] = {**asked, **whole}
    engine = engine_kind(document["runtime"]["execution"]["backend"])
    if not engine.batching_counts and not capture["engine_trace"]:
        fields["/capture/engine_trace"] = {"enabled": True}
    return loaded if not fields else _with_fields(loaded, fields)


def varied(
    loaded: LoadedManifest, lock: Lock, variation: Variation, requests: Sequence[Request]
) -> tuple[LoadedManifest, Lock]:
    """Return the manifest and the lock of an experiment.

    Args:
        loaded: The probed manifest.
        lock: Its lock.
        variation: What is changed.
        requests: As the engine was asked; for an experiment with another order.

    Raises:
        InvalidManifestError: The manifest cannot have these values.
    """
    changed = _with_fields(loaded, variation.fields)
    if not variation.reordered:
        return changed, replace(lock, manifest_id=changed.manifest_id)
    size = min(int(batching(loaded.document)["max_num_seqs"]), len(requests))
    ordered = [_request_json(each) for each in reordered(requests, size)]
    inference = {
        name: value
        for name, value in changed.document["inference"].items()
        if name not in _OF_A_DATASET
    }
    changed = _with_fields(changed, {"/inference": {**inference, "requests": ordered}})
    kept = tuple(file for file in lock.artifacts if file.name != DATASET)
    sources = {name: source for name, source in lock.sources.items() if name != DATASET}
    return changed, replace(lock, manifest_id=changed.manifest_id, artifacts=kept, sources=sources)


def reordered(requests: Sequence[Request], size: int) -> list[Request]:
    """Return requests in another order, in which each has the company that it had, `size` at once.

    All from last to first where groups come out even; else each group by itself, so that the last one stays the last.
    """
    if len(requests) % size == 0:
        return list(reversed(requests))
    groups = [requests[start : start + size] for start in range(0, len(requests), size)]
    return [request for group in groups for request in reversed(group)]


def _request_json(request: Request) -> dict[str, Any]:
    return {
        "id": request.id,
        "kind": "completion",
        "prompt_token_ids": list(request.prompt_token_ids),
        "sampling": asdict(request.sampling),
        "stop": {
            "sequences": list(request.stop.sequences),
            "token_ids": list(request.stop.token_ids),
        },
    }


def _with_fields(loaded: LoadedManifest, fields: Mapping[str, Any]) -> LoadedManifest:
    if not fields:
        return loaded
    raw = loaded.raw
    overrides = tuple(Override(f"{pointer}=…", pointer, value) for pointer, value in fields.items())
    document: Any = dict(raw.document)
    for override in overrides:
        document = apply_override(document, override)
    return validate(replace(raw, overrides=(*raw.overrides, *overrides), document=document))
