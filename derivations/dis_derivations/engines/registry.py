"""Which engines there are, and what of a manifest counts for each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.graph.derivation import PlatformClass
from dis_store.errors import UnsupportedError


@dataclass(frozen=True)
class EngineKind:
    """An engine as the graph of a manifest sees it, before anything is loaded.

    Attributes:
        name: The value of `runtime.execution.backend`.
        numerics: The version of the engine's arithmetic, or of what dis tells it to do where a manifest says nothing:
            another version may give other bits.
        platform: The class of machine facts that its results depend on, unless the manifest wants an accelerator.
        counting_engine_args: Those of `vllm.engine_args` that can change a bit of its results.
        batching_counts: Whether batch composition can change a bit of its results.
        has_process: Whether it runs in a process of its own, in an environment of its own; what that is made of counts.
        captures_activations: Whether it can tell what single layers put out.
    """

    name: str
    numerics: int
    platform: PlatformClass
    counting_engine_args: tuple[str, ...]
    batching_counts: bool
    has_process: bool = False
    captures_activations: bool = False

    def settings(self, engine_args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that are part of a result's identity, as the manifest wrote them."""
        return {
            name: engine_args[name] for name in self.counting_engine_args if name in engine_args
        }

    def platform_of(self, document: Mapping[str, Any]) -> PlatformClass:
        """Return the class of machine that a manifest wants this engine to run on."""
        constraints = document.get("hardware", {}).get("constraints") or {}
        wanted = str(constraints.get("accelerator_vendor") or "").lower()
        return "cuda" if self.has_process and wanted == "nvidia" else self.platform


REFERENCE = EngineKind(
    name="reference",
    numerics=1,
    platform="any",
    counting_engine_args=("max_model_len",),
    batching_counts=False,
)
VLLM = EngineKind(
    name="vllm",
    numerics=2,
    platform="cpu",
    counting_engine_args=(
        "attention_backend",
        "block_size",
        "dtype",
        "enable_chunked_prefill",
        "enforce_eager",
        "gpu_memory_utilization",
        "kv_cache_dtype",
        "max_model_len",
        "seed",
    ),
    batching_counts=True,
    has_process=True,
    captures_activations=True,
)
TRANSFORMERS = EngineKind(
    name="transformers",
    numerics=2,
    platform="cpu",
    counting_engine_args=("attention_backend", "dtype", "max_model_len"),
    batching_counts=False,
    has_process=True,
    captures_activations=True,
)
SERVER = EngineKind(
    name="openai_compatible",
    numerics=1,
    platform="server",
    counting_engine_args=VLLM.counting_engine_args,
    batching_counts=True,
)
MOCK = EngineKind(
    name="mock",
    numerics=2,
    platform="any",
    counting_engine_args=("max_model_len",),
    batching_counts=False,
)
_KINDS = {kind.name: kind for kind in (REFERENCE, VLLM, TRANSFORMERS, SERVER, MOCK)}


def engine_kind(backend: str) -> EngineKind:
    """Return the engine that a manifest's `runtime.execution.backend` names.

    Raises:
        UnfitEnvironmentError: This version of dis cannot run that engine.
    """
    if backend not in _KINDS:
        raise UnsupportedError(
            f"the engine {backend!r} is not available in this version of dis",
            cause=f"runtime.execution.backend is {backend!r}; this version runs {', '.join(sorted(_KINDS))}",
            hint="add --set runtime.execution.backend=reference to run the model on the reference engine",
        )
    return _KINDS[backend]
