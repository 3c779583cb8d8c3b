"""Compile a locked manifest into its graph of derivations, purely: it can be shown before a byte moves.

    wheels ─> environment ───────────────────────────────┐
    weights, tokenizer, config, chat_template, image ─> closure ─┐
    dataset, tokenizer, chat_template ─> requests ───────────────┴─> generation ─> run

Weights that are one GGUF file go through `conversion` first, whose outputs then are the parts of the model that the
lock does not have.

Only what can change a byte of a derivation's compared outputs enters it. A description or an owner
reaches the `run` alone, so editing one costs no generation; an output directory reaches nothing.
"""

from collections.abc import Mapping
from typing import Any

from dis_derivations.engines.registry import EngineKind, engine_kind
from dis_derivations.environments.compilation import LABEL as ENVIRONMENT
from dis_derivations.environments.compilation import environment_derivations
from dis_derivations.graph.derivation import Derivation, OutputReference
from dis_derivations.graph.engine_process import EngineEnvironment, closure_members
from dis_derivations.graph.graph import Graph, graph_of
from dis_derivations.graph.sharding import OCCASION, division
from dis_derivations.lock.document import Lock
from dis_derivations.lock.unverified_digests import MEMBER, UnverifiedDigests
from dis_derivations.manifest.artifact_groups import (
    CHAT_TEMPLATE,
    CONFIG,
    DATASET,
    IMAGE,
    TOKENIZER,
    WEIGHTS,
    is_gguf,
)
from dis_derivations.manifest.capture_block import captured_layers
from dis_derivations.manifest.loading import LoadedManifest
from dis_derivations.tokenization.library_versions import library_versions
from dis_store.errors import InvalidInputError

# Fixed outputs in the order in which people think of them, with the name of their artifacts in a
# lock.
FIXED_OUTPUTS = {
    "weights": WEIGHTS,
    "tokenizer": TOKENIZER,
    "config": CONFIG,
    "chat_template": CHAT_TEMPLATE,
    "dataset": DATASET,
    "image": IMAGE,
}
# Every target that a manifest may have; a conversion, an environment, a chat template, a dataset and an image not all
# of them have.
TARGETS = (
    "run",
    "generation",
    "requests",
    "closure",
    "conversion",
    ENVIRONMENT,
    *FIXED_OUTPUTS,
)
_MODEL_PARTS = ("weights", "tokenizer", "config", "chat_template")
_CLOSURE_PARTS = (*_MODEL_PARTS, "image", ENVIRONMENT)
_REQUIRED = ("weights", "tokenizer", "config")


def compile_graph(
    loaded: LoadedManifest,
    lock: Lock,
    present: Lock | None = None,
    engine_environment: EngineEnvironment | None = None,
) -> Graph:
    """Return the graph of a manifest with its lock.

    Args:
        loaded: The manifest.
        lock: What it is locked to.
        present: The same files with the digests that they have at their sources, where those of `lock` are not to be
            verified. They are what is used; only the run knows that they are not what was locked.
        engine_environment: What an engine that is no part of dis is made of, where that is known.

    Raises:
        InvalidInputError: The lock lacks an artifact that the manifest needs.
        UnfitEnvironmentError: The manifest asks for an engine that this version does not have.
    """
    document = loaded.document
    name = document["metadata"]["name"]
    engine = engine_kind(document["runtime"]["execution"]["backend"])
    fixed = _fixed_outputs(name, lock if present is None else present)
    conversion = _conversion(name, fixed["weights"]) if "weights" in fixed else None
    inputs = _inputs(name, fixed, conversion)
    python = environment_derivations(name, document, lock)
    if python is not None:
        inputs[ENVIRONMENT] = _out(python.environment)
    requests = _requests(name, document, inputs)
    closure = _closure(name, closure_members(engine, document, engine_environment), inputs)
    occasion = None if engine_environment is None else engine_environment.occasion
    generation = _generation(name, document, closure, requests, occasion)
    made = {"closure": closure, "requests": requests, "results": generation}
    run = _run(loaded, _lock_args(lock, present), engine, inputs, made)
    targets = {**fixed, **({} if conversion is None else {"conversion": conversion})}
    if python is not None:
        targets[ENVIRONMENT] = python.environment
    targets |= {each.builder: each for each in (requests, closure, generation, run)}
    return graph_of(
        [*(() if python is None else python.wheels), *targets.values()],
        {label: derivation.digest for label, derivation in targets.items()},
    )


def _fixed_outputs(name: str, lock: Lock) -> dict[str, Derivation]:
    found: dict[str, Derivation] = {}
    for label, artifact in FIXED_OUTPUTS.items():
        files = [
            {
                "path": file.path,
                "size": file.size,
                "sha256": str(file.digest),
                "executable": file.executable,
            }
            for file in lock.artifacts
            if file.name == artifact
        ]
        if files:
            found[label] = Derivation(
                name=f"{name}-{label}",
                builder="files",
                builder_version=1,
                inputs={},
                args={
                    "kind": label,
                    "files": sorted(files, key=lambda file: str(file["path"]).encode()),
                },
                platform="any",
                outputs=("out",),
                compared=("out",),
            )
    return found


def _conversion(name: str, weights: Derivation) -> Derivation | None:
    """Return what makes a checkpoint of weights that are a GGUF file; None for any others."""
    if not is_gguf([str(file["path"]) for file in weights.args["files"]]):
        return None
    return Derivation(
        name=f"{name}-conversion",
        builder="gguf",
        builder_version=1,
        inputs={"gguf": _out(weights)},
        args={},
        platform="any",
        outputs=(*_MODEL_PARTS, "log"),
        compared=_MODEL_PARTS,
    )


def _inputs(
    name: str, fixed: Mapping[str, Derivation], conversion: Derivation | None
) -> dict[str, OutputReference]:
    """Return where each part of the model, and the dataset, come from.

    Raises:
        InvalidInputError: A part that every model has comes from nowhere.
    """
    inputs = {label: _out(derivation) for label, derivation in fixed.items()}
    if conversion is not None:
        converted = {label: _out(conversion, label) for label in _MODEL_PARTS}
        inputs = {**converted, **inputs, "weights": converted["weights"]}
    if missing := [label for label in _REQUIRED if label not in inputs]:
        raise InvalidInputError(
            f"the lock of {name} has no {', '.join(missing)}",
            hint="lock the manifest again: dis lock CONFIG",
        )
    return inputs


def _out(derivation: Derivation, output: str = "out") -> OutputReference:
    return OutputReference(derivation.digest, output)


def _requests(
    name: str, document: Mapping[str, Any], inputs: Mapping[str, OutputReference]
) -> Derivation:
    inference = document["inference"]
    spec = {
        key: inference[key]
        for key in ("requests", "n_prompts", "request_template")
        if key in inference
    }
    args: dict[str, Any] = {"spec": without_extensions(spec), "libraries": library_versions()}
    if "dataset" in inputs:
        args["dataset_format"] = inference["dataset"].get("format", "conversations")
    if "pinned_date" in inference:
        args["pinned_date"] = inference["pinned_date"]
    return Derivation(
        name=f"{name}-requests",
        builder="requests",
        builder_version=1,
        inputs={
            label: inputs[label]
            for label in ("tokenizer", "chat_template", "dataset")
            if label in inputs
        },
        args=args,
        platform="any",
        outputs=("out", "log"),
        compared=("out",),
    )


def _closure(
    name: str, args: Mapping[str, Any], inputs: Mapping[str, OutputReference]
) -> Derivation:
    return Derivation(
        name=f"{name}-closure",
        builder="closure",
        builder_version=1,
        inputs={label: inputs[label] for label in _CLOSURE_PARTS if label in inputs},
        args=args,
        platform="any",
        outputs=("out", "log"),
        compared=("out",),
    )


def _generation(
    name: str,
    document: Mapping[str, Any],
    closure: Derivation,
    requests: Derivation,
    occasion: str | None,
) -> Derivation:
    engine = engine_kind(document["runtime"]["execution"]["backend"])
    capture = capture_plan(document["capture"])
    args: dict[str, Any] = {"engine": engine.name, "numerics": engine.numerics, "capture": capture}
    # A captured trace shows the batches, so then they count whatever the engine.
    if engine.batching_counts or capture["engine_trace"]:
        args["batching"] = batching(document)
    args |= division(document, capture, batching(document)["max_num_seqs"])
    if occasion is not None:
        args[OCCASION] = occasion
    return Derivation(
        name=f"{name}-generation",
        builder="generation",
        builder_version=1,
        inputs={"closure": _out(closure), "requests": _out(requests)},
        args=args,
        platform=engine.platform_of(document),
        outputs=("results", "log"),
        compared=("results",),
    )


def _lock_args(lock: Lock, present: Lock | None) -> dict[str, Any]:
    """Return what a run is told of its lock, and of digests that were not verified."""
    if present is None:
        return {"lock": dict(lock.used)}
    unverified = UnverifiedDigests.between(lock, present)
    return {"lock": dict(lock.used), MEMBER: unverified.to_json()}


def _run(
    loaded: LoadedManifest,
    lock_args: Mapping[str, Any],
    engine: EngineKind,
    inputs: Mapping[str, OutputReference],
    made: Mapping[str, Derivation],
) -> Derivation:
    built = {
        label: _out(derivation, "results" if label == "results" else "out")
        for label, derivation in made.items()
    }
    return Derivation(
        name=str(loaded.document["metadata"]["name"]),
        builder="run",
        builder_version=1,
        inputs={**inputs, **built},
        args={
            "manifest": dict(loaded.used),
            "manifest_id": str(loaded.manifest_id),
            **lock_args,
        },
        platform=engine.platform_of(loaded.document),
        outputs=("bundle", "log"),
        compared=("bundle",),
    )


def capture_plan(capture: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a manifest's `capture` block asks of the engine, with every default filled in."""
    logits = capture.get("logits", {})
    trace = capture.get("engine_trace", {})
    activations = capture.get("activations", {})
    layers = captured_layers(activations) if activations.get("enabled", False) else []
    return {
        **({"activations": {"layers": layers}} if layers else {}),
        "logits": {
            "scope": logits.get("scope", "full"),
            "dtype": logits.get("dtype", "float32"),
            "prefill": bool(logits.get("capture_prefill", False)),
            "decode": bool(logits.get("capture_decode", False)),
        }
        if logits.get("enabled", False)
        else None,
        "engine_trace": bool(trace.get("enabled", False)),
    }


def batching(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the manifest batches sequences: `max_num_seqs`, and `max_num_batched_tokens` or None."""
    block = document["inference"].get("batching", {})
    engine_args = document["vllm"].get("engine_args", {})
    return {
        "max_num_seqs": block.get("max_num_seqs", 1),
        "max_num_batched_tokens": block.get(
            "max_num_batched_tokens", engine_args.get("max_num_batched_tokens")
        ),
    }


def without_extensions(value: Any) -> Any:
    """Return a JSON value without the keys that begin with `x_`, which are notes of the manifest's author."""
    if isinstance(value, dict):
        return {
            key: without_extensions(item) for key, item in value.items() if not key.startswith("x_")
        }
    if isinstance(value, list):
        return [without_extensions(item) for item in value]
    return value
