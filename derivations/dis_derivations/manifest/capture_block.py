"""The block `capture`: what is recorded of a generation beside its tokens."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

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


def _always(value: bool) -> bool:
    if not value:
        raise ValueError("must be true: tokens are always captured")
    return value


class Capture(Block):
    """The whole block; docs/reference/manifest.md describes its fields."""

    tokens: Annotated[bool, AfterValidator(_always), Field(json_schema_extra={"const": True})]
    logits: LogitsCapture = LogitsCapture(enabled=False)
    activations: ActivationsCapture = ActivationsCapture(enabled=False)
    engine_trace: EngineTraceCapture = EngineTraceCapture(enabled=False)
