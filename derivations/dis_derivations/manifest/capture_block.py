"""The block `capture`: what is recorded of a generation beside its tokens."""

from typing import Any, Literal

from dis_derivations.manifest.block import Block, Items


class LogitsCapture(Block):
    """Which logits: those of every token of the vocabulary, or of the chosen ones alone."""

    enabled: bool
    scope: Literal["full", "chosen_only"] = "full"
    dtype: Literal["float32", "float64", "float16", "bfloat16"] = "float32"
    capture_prefill: bool = False
    capture_decode: bool = False


class ActivationsCapture(Block):
    """Which hidden states."""

    enabled: bool
    hooks: Items[Any] = ()


class EngineTraceCapture(Block):
    """Which events of the engine."""

    enabled: bool
    events: Items[str] = ()


class Capture(Block):
    """Attributes: see docs/reference/manifest.md."""

    tokens: Literal[True]
    logits: LogitsCapture = LogitsCapture(enabled=False)
    activations: ActivationsCapture = ActivationsCapture(enabled=False)
    engine_trace: EngineTraceCapture = EngineTraceCapture(enabled=False)
