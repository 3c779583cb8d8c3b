"""The worker of the `transformers` engine: a program that the interpreter of its environment runs.

It imports the standard library, torch, transformers, and what lies beside it (`worker_side.py`, `frames.py`). dis
starts it with two descriptors, the one it reads messages from and the one it writes them to
(docs/internals/engine-workers.md). Requests are computed one after the other, a whole prompt in one call and then a
token a call, with attention as the plain formula.
"""

import importlib
import math
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

PROGRAM = "transformers"
_TENSOR_BYTES = 64 << 20
_VERSIONED = ("torch", "transformers", "numpy", "safetensors")


class Transformers:
    """A loaded model."""

    def __init__(self, side: Any, talk: Any, model: str, settings: Mapping[str, Any]) -> None:
        self.side = side
        self._talk = talk
        self._names = list(settings["variables"])
        arguments = settings["arguments"]
        talk.say("importing torch and transformers")
        self.torch = importlib.import_module("torch")
        library = importlib.import_module("transformers")
        self.torch.use_deterministic_algorithms(mode=True)
        dtype = arguments["dtype"]
        talk.say("loading the model")
        self.model = library.AutoModelForCausalLM.from_pretrained(
            model,
            dtype=dtype if dtype == "auto" else getattr(self.torch, dtype),
            attn_implementation=arguments["attention"],
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
        ).eval()
        self.new_cache = library.DynamicCache
        talk.say("the model is loaded")

    def identity(self) -> dict[str, Any]:
        """Return what the engine really uses and can change a bit."""
        config = self.model.config
        return {
            "versions": {"python": platform.python_version(), **self.side.versions(_VERSIONED)},
            "settings": {
                "architecture": type(self.model).__name__,
                "attention": str(config._attn_implementation),  # noqa: SLF001 - nothing else tells
                "deterministic_algorithms": self.torch.are_deterministic_algorithms_enabled(),
                "dtype": self.side.dtype_name(self.model.dtype),
            },
            "variables": {name: os.environ.get(name) for name in self._names},
            "device": {
                "type": self.model.device.type,
                "capability": self.torch.backends.cpu.get_cpu_capability(),
                "threads": self.torch.get_num_threads(),
            },
            "weights": self._weights(),
        }

    def environment(self) -> dict[str, Any]:
        """Return what was observed beside that, for the log."""
        return {
            "variables": dict(os.environ),
            "torch": str(self.torch.__config__.show())[: 1 << 14],
            "config": str(self.model.config)[: 1 << 16],
        }

    def generate(self, header: Mapping[str, Any], ids: bytes) -> dict[str, Any]:
        """Run the requests of a message `generate`; return the last message."""
        prompts = self.side.split(ids, [each["prompt_tokens"] for each in header["requests"]])
        with self.torch.inference_mode(), Capture(self, self._talk, header) as capture:
            for number, prompt in enumerate(prompts):
                Sequel(self, self._talk, header, number, prompt).run(capture)
        return {"type": "generated", "preemptions": 0, "cached_tokens": 0}

    def _weights(self) -> dict[str, Any]:
        """Return a digest of every parameter and buffer as it is in memory after loading."""
        state = sha256()
        tensors = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        for name in sorted(tensors):
            tensor = tensors[name].detach()
            state.update(
                f"{name} {self.side.dtype_name(tensor.dtype)} {list(tensor.shape)}\n".encode()
            )
            state.update(self.side.tensor_bytes(self.torch, tensor))
        return {"tensors": len(tensors), "sha256": state.hexdigest()}


class Capture:
    """What is captured of one generation; a context manager, which lets go of the layers."""

    def __init__(self, engine: Transformers, talk: Any, header: Mapping[str, Any]) -> None:
        self._engine = engine
        self._talk = talk
        self._phases = frozenset(header["logits"])
        self._layers = list(header["layers"])
        self._states: dict[int, Any] = {}
        self._handles: list[Any] = []

    def __enter__(self) -> Self:
        self._handles = [
            module.register_forward_hook(self._keep_state(layer))
            for layer, module in self._layer_modules()
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def take(self, number: int, phase: str, logits: Any) -> None:
        """Send what one call of the model gave: [positions, vocabulary], of the prompt or of the answer."""
        if phase == "prefill" and "prefill" in self._phases:
            self._send("logits", number, "prefill", logits)
        if "decode" in self._phases:
            self._send("logits", number, "decode", logits[-1:])
        for layer in self._layers:
            self._send("activations", number, phase, self._states.pop(layer), layer)

    def _send(
        self, kind: str, number: int, phase: str, rows: Any, layer: int | None = None
    ) -> None:
        count = max(_TENSOR_BYTES // (rows.shape[1] * rows.element_size()), 1)
        for start in range(0, len(rows), count):
            part = rows[start : start + count]
            self._talk.send(
                {
                    "type": "tensor",
                    "kind": kind,
                    "request": number,
                    "phase": phase,
                    "layer": layer,
                    "dtype": self._engine.side.dtype_name(part.dtype),
                    "shape": list(part.shape),
                },
                self._engine.side.tensor_bytes(self._engine.torch, part),
            )

    def _layer_modules(self) -> list[tuple[int, Any]]:
        if not self._layers:
            return []
        refused = self._engine.side.RefusedError
        found = [
            module
            for name, module in self._engine.model.named_modules()
            if name.split(".")[-1] == "layers"
        ]
        if len(found) != 1:
            raise refused(f"this model has {len(found)} lists of layers, so none can be named")
        if beyond := [layer for layer in self._layers if layer >= len(found[0])]:
            raise refused(f"the model has {len(found[0])} layers, and no layer {beyond[0]}")
        return [(layer, found[0][layer]) for layer in self._layers]

    def _keep_state(self, layer: int) -> Any:
        def keep(_module: Any, _inputs: Any, output: Any) -> None:
            # The one sequence of the batch.
            self._states[layer] = (output[0] if isinstance(output, tuple) else output)[0].clone()

        return keep


class Sequel:
    """What follows one prompt."""

    def __init__(
        self, engine: Transformers, talk: Any, header: Mapping[str, Any], number: int, prompt: Any
    ) -> None:
        self._engine = engine
        self._talk = talk
        self._steered = header["steered"]
        self._request = header["requests"][number]
        self._number = number
        self._prompt = prompt
        self._cache = engine.new_cache(config=engine.model.config)
        self._chance = engine.torch.Generator().manual_seed(self._request["seed"] or 0)

    def run(self, capture: Capture) -> None:
        """Choose tokens until the sequence has ended."""
        computed, phase, chosen = self._prompt, "prefill", 0
        while True:
            logits = self._engine.model(
                input_ids=self._engine.torch.tensor([computed]),
                past_key_values=self._cache,
                use_cache=True,
            ).logits[0]
            capture.take(self._number, phase, logits)
            token = choose(self._engine.torch, logits[-1], self._request, self._chance)
            chosen += 1
            reason = self._reason(token, chosen)
            self._talk.send(
                {
                    "type": "step",
                    "computed": [[self._number, len(computed)]],
                    "tokens": [[self._number, [token]]],
                    "finished": [] if reason is None else [[self._number, reason]],
                }
            )
            stopped = self._steered and self._number in self._talk.receive(["go_on"])[0]["stop"]
            if stopped or reason is not None:
                return
            computed, phase = [token], "decode"

    def _reason(self, token: int, chosen: int) -> str | None:
        if token in self._request["stop_token_ids"]:
            return "stop"
        return "length" if chosen >= self._request["max_tokens"] else None


def choose(torch: Any, logits: Any, request: Mapping[str, Any], chance: Any) -> int:
    """Return the token that follows.

    Greedily it is the largest logit's, of equal ones the lowest. Else chance draws from the probabilities in float64:
    of the `top_k` likeliest, then of the fewest likeliest that have the share `top_p`.

    Args:
        torch: The module.
        logits: Of one position: [vocabulary].
        request: The request's entry in the message `generate`.
        chance: The request's own generator.
    """
    if not bool(torch.isfinite(logits).any()) or bool(torch.isnan(logits).any()):
        raise RuntimeError("the model's logits are no numbers")
    temperature = float(request["temperature"])
    if temperature == 0:
        return int((logits == logits.max()).nonzero()[0])
    ordered, tokens = torch.sort(logits.double(), descending=True, stable=True)
    if request["top_k"]:
        ordered, tokens = ordered[: request["top_k"]], tokens[: request["top_k"]]
    weights = torch.exp((ordered - ordered[0]) / temperature).tolist()
    # Added one after the other: torch may add in any order.
    sums: list[float] = []
    for weight in weights:
        sums.append(weight + (sums[-1] if sums else 0.0))
    kept = first_at_least(sums, float(request["top_p"]) * sums[-1]) + 1
    drawn = float(torch.rand(1, generator=chance, dtype=torch.float64)) * sums[kept - 1]
    return int(tokens[first_at_least(sums[:kept], math.nextafter(drawn, math.inf))])


def first_at_least(sums: Sequence[float], target: float) -> int:
    """Return the place of the first sum that reaches a target; of the last one where none does."""
    return next((place for place, each in enumerate(sums) if each >= target), len(sums) - 1)


def main() -> int:
    """Speak with dis until it has nothing more to ask."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    side = importlib.import_module("worker_side")
    status = side.serve(PROGRAM, lambda *asked: Transformers(side, *asked), sys.argv[1:3])
    return int(status)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
