"""The documents of a run's bundle: a pure function of results, manifest and lock (docs/internals/formats/bundle.md)."""

from collections.abc import Mapping, Sequence
from typing import Any

from dis_derivations.lock.unverified_digests import MEMBER
from dis_derivations.runs.hardware_conformance import unmet_constraints
from dis_store import canonical_json
from dis_store.digest import Digest, Sha256

BUNDLE_KIND = "vllm.deterministic_run_bundle"
# The tool whose manifests dis reads, and whose bundles have the same kind and other members.
OLDER_TOOL = "deterministic_inference.cli"
_OLDER_MEMBERS = ("determinism_grade", "runtime_closure_digest")
BUNDLE_DOCUMENT = "bundle.json"
TOKENS_DOCUMENT = "tokens.json"
MANIFEST_DOCUMENT = "manifest.used.json"
LOCK_DOCUMENT = "lock.used.json"
ENGINE_DOCUMENT = "engine.json"
LOGITS_FILE = "logits.safetensors"
ACTIVATIONS_FILE = "activations.safetensors"
TRACE_FILE = "engine_trace.jsonl"

ANY_PLATFORM = "any"
# The kind of an engine's environment that nothing pins.
UNPINNED = "unpinned"
# That of one that answers over the network, of which nobody knows more than it tells.
SERVER = "server"
MOCK_ENGINE = "mock"
# The member of `engine.json` of results that were made as no manifest can say.
EXPERIMENT = "experiment"
CONSTRAINTS_DO_NOT_APPLY = (
    "platform any: the same bits on every machine, so hardware constraints do not apply"
)

# What a bundle takes over from the results by reference: captures may be large, and are then stored
# once.
REFERENCED_RESULTS = (ENGINE_DOCUMENT, LOGITS_FILE, ACTIVATIONS_FILE, TRACE_FILE)


def is_older(document: Any) -> bool:
    """Return whether a `bundle.json` is one that the older tool wrote."""
    if not isinstance(document, Mapping) or document.get("kind") != BUNDLE_KIND:
        return False
    return any(name in document for name in _OLDER_MEMBERS)


def run_id(
    manifest_id: str,
    lock_id: str,
    requests_digest: Digest,
    platform: Mapping[str, Any],
    unverified: Mapping[str, Any] | None = None,
) -> Sha256:
    """Return the identity of a run; it holds no time, host or path, so the same run has the same id anywhere.

    Args:
        manifest_id: Of the manifest as it was used.
        lock_id: Of its lock.
        requests_digest: The requests object.
        platform: The class and the facts of the platform on which the results were made.
        unverified: What was used in place of what the lock declares; None for a run that was held to its lock.
    """
    preimage = {
        "manifest_id": manifest_id,
        "lock_id": lock_id,
        "requests_digest": str(requests_digest),
        "platform": dict(platform),
    }
    if unverified is not None:
        preimage[MEMBER] = dict(unverified)
    return canonical_json.sha256(preimage)


def bundle_document(
    args: Mapping[str, Any],
    inputs: Mapping[str, Digest],
    engine: Mapping[str, Any],
    platform: Mapping[str, Any],
    captured: Sequence[str],
) -> dict[str, Any]:
    """Return `bundle.json`.

    Args:
        args: The arguments of the `run` derivation: `manifest`, `manifest_id`, `lock`, and `artifact_digests` where
            the digests of the lock were not verified.
        inputs: The objects that the run is made of, by name, `results` among them.
        engine: What the engine said about itself (`engine.json` of the results).
        platform: The class and the facts of the platform on which the results were made.
        captured: The file names of the results.
    """
    manifest, lock = args["manifest"], args["lock"]
    requests = inputs["requests"]
    unverified = args.get(MEMBER)
    hardware = hardware_finding(platform, manifest["hardware"])
    return {
        "schema_version": 1,
        "kind": BUNDLE_KIND,
        "run_id": str(run_id(args["manifest_id"], lock["lock_id"], requests, platform, unverified)),
        "manifest_id": args["manifest_id"],
        "lock_id": lock["lock_id"],
        "name": manifest["metadata"]["name"],
        "engine": {key: value for key, value in engine.items() if key != "format"},
        "requests_digest": str(requests),
        "inputs": {name: str(digest) for name, digest in inputs.items() if name != "results"},
        "results": str(inputs["results"]),
        "platform": dict(platform),
        "hardware": hardware,
        "capture": {
            "tokens": "captured",
            "logits": _status(LOGITS_FILE, captured),
            "activations": _status(ACTIVATIONS_FILE, captured),
            "engine_trace": _status(TRACE_FILE, captured),
        },
        "grade": grade(
            hardware_conforms=bool(hardware["conformant"]),
            verified=unverified is None and is_evidence(engine),
        ),
        **({} if unverified is None else {MEMBER: unverified}),
    }


def is_pinned(engine: Mapping[str, Any]) -> bool:
    """Return whether it is known what an engine was made of; one that is part of dis always is."""
    environment = engine.get("environment")
    return not isinstance(environment, dict) or environment.get("kind") not in {UNPINNED, SERVER}


def is_evidence(engine: Mapping[str, Any]) -> bool:
    """Return whether results of an engine can show anything about their manifest and lock."""
    return engine.get("engine") != MOCK_ENGINE and EXPERIMENT not in engine and is_pinned(engine)


def grade(*, hardware_conforms: bool, verified: bool) -> str:
    """Return the grade of one run against its own manifest and lock."""
    if not hardware_conforms:
        return "non_conformant_hardware"
    return "conformant" if verified else "non_conformant_software"


def hardware_finding(
    platform: Mapping[str, Any], declared: Mapping[str, Any]
) -> dict[str, bool | list[str]]:
    """Return whether the machine met the manifest's constraints, with a sentence where more is to be said.

    Args:
        platform: The class and the facts of the platform on which the results were made.
        declared: The block `hardware` of the manifest.
    """
    # An empty list constrains nothing, as docs/reference/manifest.md says.
    constraints = sorted(name for name, value in declared.get("constraints", {}).items() if value)
    if not constraints:
        return {"conformant": True, "reasons": []}
    if platform["class"] == ANY_PLATFORM:
        return {"conformant": True, "reasons": [CONSTRAINTS_DO_NOT_APPLY]}
    reasons = unmet_constraints(platform["facts"], declared["constraints"])
    return {"conformant": not reasons, "reasons": reasons}


def _status(file: str, captured: Sequence[str]) -> str:
    return "captured" if file in captured else "not requested"


def tokens_document(
    manifest: Mapping[str, Any],
    engine: str,
    tokenizer: Digest,
    requests: Sequence[Mapping[str, Any]],
    sequences: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the bundle's `tokens.json`, in the form that downstream tools read.

    Args:
        manifest: The manifest as it was used.
        engine: The engine's name, given as the provider.
        tokenizer: The tokenizer's object.
        requests: The entries of `requests.json`.
        sequences: The entries of the results' `tokens.json`, in the same order.
    """
    conversations = [request["conversation"] for request in requests]
    return {
        "model": manifest["vllm"].get("engine_args", {}).get("model"),
        "provider": engine,
        "parameters": [
            {"id": request["id"], "sampling": request["sampling"], "stop": request["stop"]}
            for request in requests
        ],
        "tokenizer": str(tokenizer),
        "conversations": conversations if any(conversations) else None,
        "sequences": [
            {
                "id": sequence["id"],
                "prompt_token_ids": sequence["prompt_token_ids"],
                "output_token_ids": sequence["output_token_ids"],
            }
            for sequence in sequences
        ],
        "decoded_output_text": [sequence["text"] for sequence in sequences],
    }
