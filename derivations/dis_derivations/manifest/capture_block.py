"""The block `capture`: what is recorded of a generation beside its tokens."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from dis_derivations.manifest.block import Block, Items

_LAYER = re.compile(r"(model\.)?layers\.(?P<number>0|[1-9][0-9]{0,3})")


class LogitsCapture(Block):
    """Which logits: those of every token of the vocabulary, or of the chosen ones alone."""

    enabled: bool
    scope: Literal["full", "chosen_only"] = "full"
    dtype: Literal["float32", "float64", "float16", "bfloat16"] = "float32"
    capture_prefill: bool = False
    capture_decode: bool = False


class ActivationsCapture(Block):
    """What is captured of the states between layers: by `hooks`, what each of these layers puts out."""

    enabled: bool
    hooks: Items[Any] = ()

    @model_validator(mode="after")
    def _hooks_name_layers(self) -> Self:
        unknown = [hook for hook in self.hooks if layer_number(hook) is None]
        if self.enabled and (unknown or not self.hooks):
            found = f"; it has {unknown[0]!r:.60}" if unknown else ""
            raise ValueError(f"must name layers in 'hooks', such as 'layers.11'{found}")
        return self


class EngineTraceCapture(Block):
    """Which events of the engine."""

    enabled: bool
    events: Items[str] = ()


def layer_number(hook: Any) -> int | None:
    """Return the number of the layer that a hook names; None where it names none."""
    found = _LAYER.fullmatch(hook) if isinstance(hook, str) else None
    return None if found is None else int(found["number"])


def captured_layers(activations: Mapping[str, Any]) -> list[int]:
    """Return the numbers of the layers that `capture.activations` names, each once, in order."""
    numbers = (layer_number(hook) for hook in activations.get("hooks", ()))
    return sorted({number for number in numbers if number is not None})


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
