"""The environment with vLLM that `make vllm` builds, for tests that drive the real one."""

import os
from pathlib import Path

import pytest

from checkpoints import CheckpointShape

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".cache/vllm/bin/python"

# Large enough that matrix products of one row and of many take different ways; heads as wide as vLLM's kernels know.
SMALL = CheckpointShape(
    vocabulary=512, hidden=512, intermediate=1024, layers=2, queries=8, keys=4, context=512
)


def vllm_python() -> Path:
    """Return vLLM's interpreter; skip where it is not built, which CI must have."""
    if not PYTHON.with_name("vllm").exists():
        reason = "there is no .cache/vllm: make vllm"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return PYTHON
