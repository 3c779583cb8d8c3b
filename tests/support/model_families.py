"""A small model of each mechanism that the reference engine knows, by a name for it."""

from collections.abc import Mapping
from typing import Any

from checkpoints import CheckpointShape

_SIZES: dict[str, Any] = {
    "hidden": 48,
    "intermediate": 80,
    "queries": 6,
    "keys": 2,
    "context": 2048,
}

MODELS: Mapping[str, CheckpointShape] = {
    # A window within a block of keys; frequencies divided.
    "mistral": CheckpointShape(
        family="mistral",
        config={"sliding_window": 9, "rope_scaling": {"type": "linear", "factor": 2.5}},
        **_SIZES,
    ),
    # Biases; a window over the border of a block, in the second layer alone; yarn.
    "qwen2": CheckpointShape(
        family="qwen2",
        tied=True,
        config={
            "use_sliding_window": True,
            "sliding_window": 70,
            "max_window_layers": 1,
            "rope_scaling": {
                "type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 512,
            },
        },
        **_SIZES,
    ),
    # Normalised heads, wider than hidden size by heads; the frequencies of Llama 3.
    "qwen3": CheckpointShape(
        family="qwen3",
        head=16,
        config={
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 256,
            },
        },
        **_SIZES,
    ),
    # A layer whose queries and keys are not turned.
    "smollm3": CheckpointShape(
        family="smollm3", tied=True, config={"no_rope_layers": [1, 0]}, **_SIZES
    ),
}
