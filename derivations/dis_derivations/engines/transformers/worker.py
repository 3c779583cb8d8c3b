"""The worker of the `transformers` engine: a program that the interpreter of its environment runs.

It imports the standard library, torch, transformers, numpy, and what lies beside it: `worker_side.py`, `frames.py`, and
the modules of dis by which the reference engine draws tokens. dis starts it with two descriptors, the one it reads
messages from and the one it writes them to (docs/internals/engine-workers.md). Requests are computed one after the
other, a whole prompt in one call and then a token a call, with attention as the plain formula.
"""

import importlib
import importlib.util
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
# The rule by which the reference engine draws tokens, each after those that it imports.
_RULE = ("fixed_point", "elementary_functions", "drawing")
_RULE_PACKAGE = "dis_derivations.engines.reference"
_CHANCE = "dis sampling 1"
_CHANCE_BYTES = 16


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
        *_, drawing = [beside(name, f"{_RULE_PACKAGE}.{name}") for name in _RULE]
        self.draw = drawing.draw
        self.digest = beside("portable_blake3", "portable_blake3").digest
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
        self,
        engine: Transformers,
        talk: Any,
        header: Mapping[str, Any],
        number: int,
        prompt: Sequence[int],
    ) -> None:
        self._engine = engine
        self._talk = talk
        self._steered = header["steered"]
        self._request = header["requests"][number]
        self._number = number
        self._prompt = prompt
        self._cache = engine.new_cache(config=engine.model.config)

    def run(self, capture: Capture) -> None:
        """Choose tokens until the sequence has ended."""
        computed, phase, chosen = list(self._prompt), "prefill", 0
        while True:
            logits = self._engine.model(
                input_ids=self._engine.torch.tensor([computed]),
                past_key_values=self._cache,
                use_cache=True,
            ).logits[0]
            capture.take(self._number, phase, logits)
            token = self._choose(logits[-1], chosen)
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

    def _choose(self, logits: Any, number: int) -> int:
        """Return the token that follows: the largest logit's, of equal ones the lowest, or one that chance draws.

        Args:
            logits: Of one position: [vocabulary].
            number: How many tokens of the answer there are before it.
        """
        values = logits.double().numpy()
        # What is no number is the largest.
        if not math.isfinite(values.max()):
            raise RuntimeError("the model's logits are no numbers")
        temperature = float(self._request["temperature"])
        if temperature == 0:
            return int(values.argmax())
        # As `chance` of the reference engine.
        key = f"{_CHANCE}\n{self._request['seed']}\n{number}\n{self._request['id']}"
        drawn = self._engine.digest(key.encode())[:_CHANCE_BYTES]
        return int(
            self._engine.draw(
                values,
                int.from_bytes(drawn, "big"),
                temperature=temperature,
                top_p=float(self._request["top_p"]),
                top_k=self._request["top_k"],
            )
        )

    def _reason(self, token: int, chosen: int) -> str | None:
        if token in self._request["stop_token_ids"]:
            return "stop"
        return "length" if chosen >= self._request["max_tokens"] else None


def beside(file: str, name: str) -> Any:
    """Import a module that lies beside this program by the name that others import it by."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{file}.py"))
    if spec is None or spec.loader is None:
        raise ImportError(f"{file}.py cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


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
