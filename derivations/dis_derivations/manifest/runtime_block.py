"""The block `runtime`: the process that runs the engine, and which engine that is."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from dis_derivations.manifest.block import Block
from dis_derivations.manifest.scalars import ImageReference, NonEmpty

Threads = Annotated[int, Field(gt=0)]


class Locale(Block):
    """Language and time zone of the process."""

    lang: NonEmpty
    tz: NonEmpty


class ThreadCounts(Block):
    """Threads of the numerical libraries."""

    omp_num_threads: Threads
    mkl_num_threads: Threads


class Execution(Block):
    """Which engine answers the requests, and how it is reached."""

    backend: Literal["reference", "transformers", "vllm", "openai_compatible", "mock"]
    base_url: NonEmpty | None = None
    timeout_seconds: Annotated[int, Field(gt=0)] | None = None
    deterministic_failure_policy: Literal["error", "warn_only", "off"] = "error"
    vllm_image: ImageReference | None = None
    vllm_image_path: NonEmpty | None = None


class Runtime(Block):
    """The whole block; docs/reference/manifest.md describes its fields."""

    env: Mapping[str, str]
    locale: Locale | None = None
    threads: ThreadCounts | None = None
    network_policy: Literal["online_allowed", "offline_required"] = "online_allowed"
    execution: Execution
    profile: Literal["regulated"] | None = None
