"""The block `vllm`: the settings of the engine, whichever it is. The name is historical."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dis_derivations.manifest.block import Block
from dis_derivations.manifest.scalars import NonEmpty

Positive = Annotated[int, Field(gt=0)]


class Reproducibility(Block):
    """vLLM's own switches."""

    enable_batch_invariance: bool = False
    enable_v1_multiprocessing: bool = False


class EngineArgs(Block):
    """Arguments of the engine; what is absent is the engine's own default."""

    model: NonEmpty | None = None
    trust_remote_code: bool | None = None
    async_scheduling: bool | None = None
    dtype: NonEmpty | None = None
    tensor_parallel_size: Positive | None = None
    pipeline_parallel_size: Positive | None = None
    max_model_len: Positive | None = None
    max_num_batched_tokens: Positive | None = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    enforce_eager: bool | None = None
    enable_prefix_caching: bool | None = None
    enable_chunked_prefill: bool | None = None
    attention_backend: NonEmpty | None = None
    block_size: Positive | None = None
    kv_cache_dtype: NonEmpty | None = None
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    enable_auto_tool_choice: bool | None = None
    tool_call_parser: NonEmpty | None = None
    reasoning_parser: NonEmpty | None = None

    @model_validator(mode="after")
    def _tool_choice_has_parser(self) -> Self:
        if self.enable_auto_tool_choice and self.tool_call_parser is None:
            raise ValueError("must have 'tool_call_parser' when 'enable_auto_tool_choice' is true")
        return self


class Vllm(Block):
    """The whole block; docs/reference/manifest.md describes its fields."""

    mode: Literal["offline", "server"] = "offline"
    reproducibility: Reproducibility = Reproducibility()
    env: Mapping[str, str] = {}
    engine_args: EngineArgs = EngineArgs()
