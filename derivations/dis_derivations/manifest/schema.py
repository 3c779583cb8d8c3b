"""The schema of a whole manifest: its fourteen blocks."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from dis_derivations.manifest.artifacts_block import Artifacts
from dis_derivations.manifest.block import Block
from dis_derivations.manifest.capture_block import Capture
from dis_derivations.manifest.cuda_block import CudaStack
from dis_derivations.manifest.determinism_block import Determinism
from dis_derivations.manifest.hardware_block import Hardware
from dis_derivations.manifest.inference_block import Inference
from dis_derivations.manifest.metadata_block import Metadata
from dis_derivations.manifest.model_block import Model
from dis_derivations.manifest.outputs_block import Outputs
from dis_derivations.manifest.runtime_block import Runtime
from dis_derivations.manifest.software_block import SoftwareStack
from dis_derivations.manifest.vllm_block import Vllm

KIND = "vllm.deterministic_inference_manifest"
SCHEMA_VERSION = 1


def _version(value: int) -> int:
    if value != SCHEMA_VERSION:
        raise ValueError(f"must be {SCHEMA_VERSION}, not {value}")
    return value


class Manifest(Block):
    """A manifest with its bases merged. Every block is required; most of what they hold is not."""

    schema_version: Annotated[
        int, AfterValidator(_version), Field(json_schema_extra={"const": SCHEMA_VERSION})
    ]
    kind: Literal["vllm.deterministic_inference_manifest"]
    metadata: Metadata
    determinism: Determinism
    hardware: Hardware
    artifacts: Artifacts
    software_stack: SoftwareStack
    cuda_stack: CudaStack
    runtime: Runtime
    vllm: Vllm
    model: Model
    inference: Inference
    capture: Capture
    outputs: Outputs


def manifest_schema() -> dict[str, Any]:
    """Return the JSON Schema of a merged manifest (what `dis schema` prints).

    Rules between fields (docs/reference/manifest.md) are not in it.
    """
    schema = Manifest.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Manifest",
        **schema,
    }
