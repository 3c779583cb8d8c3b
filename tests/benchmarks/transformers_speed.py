"""Measures transformers in float32 on a random model, for comparison: prints the seconds of one step.

Usage: .venv-oracle/bin/python tests/benchmarks/transformers_speed.py SIZE WHAT. See reference_speed.py.
The loop calls the model directly: `generate` costs about half a millisecond a token on top.
"""

import os
import statistics
import sys
import time
from typing import Any

import torch  # type: ignore[import-not-found]
from transformers import (  # type: ignore[import-not-found]
    LlamaConfig,
    LlamaForCausalLM,
)

SIZES: dict[str, dict[str, Any]] = {
    "quickstart": {
        "hidden_size": 128,
        "intermediate_size": 352,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 1536,
    },
    "135M": {
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "vocab_size": 49152,
        "tie_word_embeddings": True,
    },
}
STEPS = {"quickstart": 200, "135M": 20}


def clock() -> float:
    """Return seconds of processor or wall time."""
    return time.process_time() if os.environ.get("CPU_TIME") else time.perf_counter()


def step_seconds(model: Any, prompt: int, steps: int, batch: int) -> list[float]:
    """Return how long each step of a generation took, the prompt's first."""
    tokens, cache, seconds = torch.randint(0, 250, (batch, prompt)), None, []
    for _ in range(steps):
        start = clock()
        output = model(tokens, past_key_values=cache, use_cache=True)
        cache, tokens = output.past_key_values, output.logits[:, -1:].argmax(-1)
        seconds.append(clock() - start)
    return seconds


def main() -> None:
    """Measure one size."""
    size, what = sys.argv[1:]
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(max_position_embeddings=2048, **SIZES[size])).eval()
    with torch.inference_mode():
        step_seconds(model, 4, 2, 1)
        if what == "prompt":
            seconds = [step_seconds(model, 512, 1, 1)[0] for _ in range(3)]
        else:
            seconds = step_seconds(model, 16, STEPS[size] + 1, int(what))[1:]
    print(statistics.median(seconds))  # noqa: T201


if __name__ == "__main__":
    main()
