"""Makes checkpoints with transformers and computes them in float64. Run by the oracle's interpreter.

Usage: python oracle_script.py CASES DIRECTORY, where CASES is a JSON list of cases and DIRECTORY
gets one folder a case: the checkpoint, and `oracle.npz` with the greedy tokens and all logits.

Two parts of transformers' models compute in float32 even in a float64 model: the normalisation and
the rotary angles. The normalisation is replaced by the same formula in float64. The frequencies are
made by transformers' own code for each type of scaling, made to compute in float64.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found]
from transformers import (  # type: ignore[import-not-found]
    AutoConfig,
    AutoModelForCausalLM,
)
from transformers.modeling_rope_utils import (  # type: ignore[import-not-found]
    ROPE_INIT_FUNCTIONS,
)

Model = Any


def norm_in_float64(self: Any, hidden: torch.Tensor) -> torch.Tensor:
    scaled = hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
    return self.weight * scaled


def frequencies_in_float64(rotary: Any) -> tuple[torch.Tensor, float]:
    """Run the code that makes a model's frequencies with float64 in the place of float32."""
    make = ROPE_INIT_FUNCTIONS.get(rotary.rope_type, rotary.compute_default_rope_parameters)
    narrow = torch.float32
    try:
        torch.float = torch.float32 = torch.float64
        frequencies, factor = make(rotary.config)
    finally:
        torch.float = torch.float32 = narrow
    assert frequencies.dtype == torch.float64
    return frequencies, factor


def rotary_in_float64(
    self: Any, _x: torch.Tensor, position_ids: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    frequencies, factor = self.in_float64
    angles = position_ids[..., None].double() * frequencies
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos() * factor, angles.sin() * factor


def randomise(model: Model, case: dict[str, Any]) -> None:
    """Give the model weights whose logits are spread, with outlier channels where asked for."""
    generator = torch.Generator().manual_seed(case["seed"])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            numbers = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
            if name.endswith("norm.weight"):
                numbers = 1 + 0.2 * numbers
                numbers[:: max(1, numbers.shape[0] // 3)] *= case["outlier"]
            elif name.endswith("bias"):
                numbers = 0.1 * numbers
            else:
                numbers = 1.2 * numbers / parameter.shape[1] ** 0.5
            parameter.copy_(numbers)


def greedy(model: Model, prompt: list[int], count: int) -> tuple[list[int], Any]:
    """Return the greedy tokens, and the logits of every position but the last token's."""
    tokens = list(prompt)
    while True:
        logits = model(torch.tensor([tokens]), use_cache=False).logits[0]
        if len(tokens) == len(prompt) + count:
            return tokens[len(prompt) :], logits[:-1].numpy()
        tokens.append(int(logits[-1].argmax()))


def in_float32(directory: Path, tokens: list[int]) -> Any:
    """Return the logits of transformers as it is, in float32."""
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    return model(torch.tensor([tokens]), use_cache=False).logits[0].numpy()


def in_float64(directory: Path) -> Model:
    """Return the saved checkpoint as a model that computes in float64 throughout."""
    model = AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float64, attn_implementation="sdpa"
    )
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = norm_in_float64.__get__(module)
        elif type(module).__name__.endswith("RotaryEmbedding"):
            module.in_float64 = frequencies_in_float64(module)
            module.forward = rotary_in_float64.__get__(module)
    return model.eval()


def run(case: dict[str, Any], directory: Path) -> None:
    """Make one case's checkpoint and its answers."""
    # The constructor takes its settings out of what it is given.
    config = AutoConfig.for_model(**json.loads(json.dumps(case["config"])))
    model = AutoModelForCausalLM.from_config(config)
    randomise(model, case)
    model.to(getattr(torch, case["dtype"])).save_pretrained(
        directory, max_shard_size=case["max_shard_size"]
    )
    with torch.no_grad():
        tokens, logits = greedy(in_float64(directory), case["prompt"], case["count"])
        single = in_float32(directory, case["prompt"] + tokens)
    np.savez(directory / "oracle.npz", tokens=tokens, logits=logits, float32=single[:-1])


def main() -> None:
    """Run every case."""
    cases = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    for number, case in enumerate(cases):
        run(case, Path(sys.argv[2]) / f"case-{number}")


if __name__ == "__main__":
    main()
