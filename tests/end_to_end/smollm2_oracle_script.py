"""Computes a run of SmolLM2 again with transformers in float64. Run by the oracle's interpreter.

Usage: python smollm2_oracle_script.py MODEL TOKENS LOGITS PROMPTS: the model's directory, the `tokens.json` and the
`logits.safetensors` of the bundle, and the file of prompts. Prints one JSON object of what was found.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found]
from safetensors.numpy import load_file  # type: ignore[import-not-found]
from transformers import AutoTokenizer  # type: ignore[import-not-found]


def referee() -> Any:
    """Return the module that makes a model compute in float64 throughout."""
    path = Path(__file__).parents[1] / "derivations/engines/oracle_script.py"
    spec = importlib.util.spec_from_file_location("oracle_script", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Compare every sequence."""
    directory, tokens, captured, prompts = map(Path, sys.argv[1:])
    model, tokenizer = referee().in_float64(directory), AutoTokenizer.from_pretrained(directory)
    logits = load_file(captured)
    sequences = json.loads(tokens.read_text("utf-8"))["sequences"]
    conversations = json.loads(prompts.read_text("utf-8"))["conversations"]
    found = {"tokens": 0, "greedy": 0, "prompts": 0, "error": 0.0, "margin": float("inf")}
    for index, sequence in enumerate(sequences):
        prompt, output = sequence["prompt_token_ids"], sequence["output_token_ids"]
        text = tokenizer.apply_chat_template(
            conversations[index], add_generation_prompt=True, tokenize=False
        )
        found["prompts"] += tokenizer(text, add_special_tokens=False)["input_ids"] == prompt
        with torch.no_grad():
            rows = model(torch.tensor([prompt + output[:-1]]), use_cache=False).logits[0]
        rows = rows[len(prompt) - 1 :].numpy()
        chosen = rows[np.arange(len(output)), output]
        highest = np.sort(rows, axis=1)[:, -2:]
        found["tokens"] += len(output)
        found["greedy"] += int((rows.argmax(axis=1) == output).sum())
        difference = np.abs(logits[f"{index:05d}.decode"].reshape(-1) - chosen).max()
        found["error"] = max(found["error"], float(difference))
        found["margin"] = min(found["margin"], float((highest[:, 1] - highest[:, 0]).min()))
    print(json.dumps(found))  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main()
