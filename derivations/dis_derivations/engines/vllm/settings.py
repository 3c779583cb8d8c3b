"""What vLLM is told: the manifest's settings, and everything that vLLM would else choose by itself, said explicitly.

vLLM's own defaults move with its version, the machine and the checkpoint. So each setting that can change a bit is
given, whether the manifest speaks of it or not; what vLLM made of them is reported back and compared.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dis_derivations.engines.protocol import Batching

# What dis sets whatever a manifest says, with the reason that a manifest which says otherwise is told.
FORCED_VARIABLES: Mapping[str, tuple[str, str]] = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": (
        "0", "in several processes the order of scheduling is not fixed, and nothing can be captured",
    ),
    "VLLM_USE_V2_MODEL_RUNNER": ("0", "captures are taken from the first model runner"),
    "HF_HUB_OFFLINE": ("1", "the model is the closure's, and nothing is fetched"),
    "TRANSFORMERS_OFFLINE": ("1", "the model is the closure's, and nothing is fetched"),
    "VLLM_NO_USAGE_STATS": ("1", "nobody is told about runs"),
    "VLLM_DO_NOT_TRACK": ("1", "nobody is told about runs"),
    "VLLM_HOST_IP": ("127.0.0.1", "no other machine takes part"),
    "GLOO_SOCKET_IFNAME": ("lo", "no other machine takes part"),
    "CUDA_DEVICE_ORDER": ("PCI_BUS_ID", "accelerators are counted as their driver counts them"),
}  # fmt: skip
PREFIX_CACHING = "enable_prefix_caching"
"""No manifest turns it on. The closure of an experiment has it among its settings, with the next one."""
KEPT_POSITIONS = "prefix_cache_positions"
"""For how many positions there is room beside those of a full batch, so that what was cached is still there."""
BATCH_INVARIANT = "VLLM_BATCH_INVARIANT"
_NO_INVARIANCE = (
    "on the CPU vLLM does not start with batch-invariant kernels (VLLM_BATCH_INVARIANT)"
)
_IN_ONE_PROCESS = "captures are taken in one process, on one accelerator"
_OF_SERVERS = "is for servers that answer in conversations"
# Arguments that have one value here, absent or said, with the reason.
_ALLOWED_ARGUMENTS: Mapping[str, tuple[object, str]] = {
    "tensor_parallel_size": (1, _IN_ONE_PROCESS),
    "pipeline_parallel_size": (1, _IN_ONE_PROCESS),
    "async_scheduling": (False, "steps that overlap have no fixed batches"),
    PREFIX_CACHING: (False, "what a request gives would depend on those before it"),
    "enable_auto_tool_choice": (False, _OF_SERVERS),
    "tool_call_parser": (None, _OF_SERVERS),
    "reasoning_parser": (None, _OF_SERVERS),
}

_SHORT_FORMATS = {"float": "float32", "half": "float16"}
DEFAULT_BATCHED_TOKENS = 2048
_KV_NUMBER_BYTES = 4
_BLOCK = 128
_LEAST_KV_BYTES = 64 << 20


def process_variables(document: Mapping[str, Any], declared: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of vLLM's process that a manifest leads to; part of a result's identity."""
    switches = document["vllm"].get("reproducibility") or {}
    invariant = {BATCH_INVARIANT: "1"} if switches.get("enable_batch_invariance") else {}
    forced = {name: value for name, (value, _) in FORCED_VARIABLES.items()}
    return {**declared, **invariant, **forced}


def refused_settings(
    document: Mapping[str, Any], declared: Mapping[str, str], *, on_cpu: bool
) -> Iterator[str]:
    """Yield one line for each setting of a manifest that vLLM is not run with.

    Args:
        document: The manifest.
        declared: The variables that it gives to the engine's process.
        on_cpu: Whether it is for the CPU.
    """
    vllm = document["vllm"]
    switches, arguments = vllm.get("reproducibility") or {}, vllm.get("engine_args") or {}
    for name, (value, reason) in FORCED_VARIABLES.items():
        if declared.get(name, value) != value:
            yield f"vllm.env.{name}: is {declared[name]!r}, and the vllm engine runs with {value!r}: {reason}"
    if vllm.get("mode", "offline") != "offline":
        yield "vllm.mode: the vllm engine is offline; a server is what the engine openai_compatible is for"
    if switches.get("enable_v1_multiprocessing"):
        reason = FORCED_VARIABLES["VLLM_ENABLE_V1_MULTIPROCESSING"][1]
        yield f"vllm.reproducibility.enable_v1_multiprocessing: is true: {reason}"
    asked = switches.get("enable_batch_invariance") or declared.get(BATCH_INVARIANT, "0") != "0"
    if asked and on_cpu:
        yield f"vllm.reproducibility.enable_batch_invariance: {_NO_INVARIANCE}"
    for field, (allowed, reason) in _ALLOWED_ARGUMENTS.items():
        if (arguments.get(field) or allowed) != allowed:
            yield f"vllm.engine_args.{field}: {reason}"


def engine_arguments(
    settings: Mapping[str, Any], batching: Batching, config: Mapping[str, Any], context: int
) -> dict[str, Any]:
    """Return the arguments of vLLM's `LLM`, all that can change a bit among them.

    Args:
        settings: The `settings` of the closure's engine: what the manifest says.
        batching: How many sequences share a step.
        config: The model's `config.json`, for the size of keys and values.
        context: How long a sequence may become.
    """
    budget = batching.max_num_batched_tokens or max(DEFAULT_BATCHED_TOKENS, context)
    said = {name: value for name, value in settings.items() if value is not None}
    kept = said.pop(KEPT_POSITIONS, 0)
    room = kv_cache_bytes(config, batching.max_num_seqs, context, kept)
    memory = {} if "gpu_memory_utilization" in said else {"kv_cache_memory_bytes": room}
    return {
        "dtype": "auto",
        "enforce_eager": True,
        "kv_cache_dtype": "auto",
        "seed": 0,
        # A prompt that is longer than a step must be computed in pieces.
        "enable_chunked_prefill": budget < context,
        **memory,
        **said,
        "max_model_len": context,
        "max_num_seqs": batching.max_num_seqs,
        "max_num_batched_tokens": budget,
        "async_scheduling": False,
        PREFIX_CACHING: said.get(PREFIX_CACHING, False),
        "disable_cascade_attn": True,
        "scheduling_policy": "fcfs",
        "generation_config": "vllm",
        "load_format": "safetensors",
        "skip_tokenizer_init": True,
        "trust_remote_code": False,
        "disable_log_stats": True,
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
    }


def kept_positions(lengths: Iterable[int]) -> int:
    """Return for how many positions there must be room where sequences of these lengths are to stay in the cache."""
    return sum((-(-length // _BLOCK) + 1) * _BLOCK for length in lengths)


def kv_cache_bytes(config: Mapping[str, Any], sequences: int, context: int, kept: int = 0) -> int:
    """Return room for the keys and values of a full batch, twice over: with less, requests are thrown out of it.

    Args:
        config: The model's `config.json`; where it says less than a Llama's, what it has at most is taken.
        sequences: How many there are at once.
        context: How long each may become.
        kept: For how many positions more there is room.
    """
    heads = _number(config, "num_attention_heads", 1)
    width = _number(config, "head_dim", max(_number(config, "hidden_size", 1) // heads, 1))
    keys = _number(config, "num_key_value_heads", heads)
    per_token = 2 * _number(config, "num_hidden_layers", 1) * keys * width * _KV_NUMBER_BYTES
    positions = sequences * (-(-context // _BLOCK) + 1) * _BLOCK
    return max(2 * per_token * positions, _LEAST_KV_BYTES) + per_token * kept


def _number(config: Mapping[str, Any], name: str, default: int) -> int:
    value = config.get(name)
    return value if isinstance(value, int) and value > 0 else default


def overridden(arguments: Mapping[str, Any], used: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that vLLM did not leave as it was told, each with both values.

    Args:
        arguments: What `engine_arguments` said.
        used: The `settings` that the worker read from vLLM.
    """
    told = {name: _as_reported(name, value) for name, value in arguments.items()}
    told["cascade_attention"] = not arguments.get("disable_cascade_attn", True)
    # `auto` is a question, and its answer no override.
    return {
        name: {"asked": told[name], "used": used[name]}
        for name in sorted(told.keys() & used.keys())
        if told[name] not in ("auto", used[name])
    }


def _as_reported(name: str, value: Any) -> Any:
    """Return a setting in the words in which vLLM reports it."""
    if name == "dtype":
        return _SHORT_FORMATS.get(value, value)
    return value.upper() if name == "attention_backend" and isinstance(value, str) else value
