"""What transformers is told, and what of a manifest it is not run with."""

from collections.abc import Iterator, Mapping
from typing import Any

# What dis sets whatever a manifest says, with the reason that a manifest which says otherwise is told.
FORCED_VARIABLES: Mapping[str, tuple[str, str]] = {
    "HF_HUB_OFFLINE": ("1", "the model is the closure's, and nothing is fetched"),
    "TRANSFORMERS_OFFLINE": ("1", "the model is the closure's, and nothing is fetched"),
    "HF_HUB_DISABLE_TELEMETRY": ("1", "nobody is told about runs"),
    "CUDA_VISIBLE_DEVICES": ("", "the transformers engine runs on the CPU"),
    "TOKENIZERS_PARALLELISM": ("false", "the engine is given tokens, and tokenizes nothing"),
}
DTYPES = ("auto", "float64", "float32", "bfloat16", "float16")
_ALIASES = {"float": "float32", "double": "float64", "half": "float16"}
_EAGER = "eager"


def process_variables(declared: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the engine's process that a manifest leads to; part of a result's identity."""
    return {**declared, **{name: value for name, (value, _) in FORCED_VARIABLES.items()}}


def refused_settings(document: Mapping[str, Any], declared: Mapping[str, str]) -> Iterator[str]:
    """Yield one line for each setting of a manifest that transformers is not run with.

    Args:
        document: The manifest.
        declared: The variables that it gives to the engine's process.
    """
    arguments = document["vllm"].get("engine_args") or {}
    for name, (value, reason) in FORCED_VARIABLES.items():
        if declared.get(name, value) != value:
            yield f"variable {name}: is {declared[name]!r}, and the transformers engine runs with {value!r}: {reason}"
    constraints = document.get("hardware", {}).get("constraints") or {}
    if constraints.get("accelerator_vendor"):
        yield "hardware.constraints.accelerator_vendor: the transformers engine runs on the CPU"
    dtype = arguments.get("dtype")
    if dtype is not None and _ALIASES.get(dtype, dtype) not in DTYPES:
        yield f"vllm.engine_args.dtype: is {dtype!r}, and the transformers engine takes {', '.join(DTYPES)}"
    backend = arguments.get("attention_backend")
    if backend is not None and backend.lower() != _EAGER:
        yield f"vllm.engine_args.attention_backend: is {backend!r}, and the transformers engine has {_EAGER!r} alone"


def engine_arguments(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the worker is told.

    Args:
        settings: The `settings` of the closure's engine: what the manifest says.
    """
    dtype = settings.get("dtype") or "auto"
    return {"dtype": _ALIASES.get(dtype, dtype), "attention": _EAGER}
