"""What is known about the effect of an upstream difference on bits."""

from collections.abc import Iterable, Mapping

from dis_derivations.comparison.causes.json_changes import Change
from dis_derivations.manifest import json_pointer

_SHOWN = 4

_OF_KIND: Mapping[str, str] = {
    "weights": "every value is computed from them: other bits, unless what differs is not used",
    "config": "it says what the model computes: other bits are expected",
    "tokenizer": "it reaches bits through the token ids of prompts alone; texts of answers may differ with equal ids",
    "chat_template": "it reaches bits through the token ids of prompts alone",
    "requests": "another prompt is another computation",
    "engine": "settings choose kernels and shapes, and with them the order of additions",
    "batching": "the shape of a batch decides the order of additions: other bits unless kernels are batch-invariant",
    "software": "other versions of an engine, torch or cuBLAS choose other kernels: other bits are likely",
    "closure": "unknown: what differs in it is not at hand",
    "platform": "another accelerator, driver or instruction set chooses other kernels: other bits are likely",
    "capture": "capturing changes no token; it may change which kernels compute the logits",
}

_ALWAYS = "changes bits"
_SHAPES = "changes the shape of batches: changes bits unless kernels are batch-invariant"
_KERNELS = "chooses other kernels: changes bits"
_SAMPLING = "changes which token is chosen, not the logits it is chosen from"
# By the last name of a setting. Sources: vLLM's documentation of batch invariance and of its engine arguments, and
# reports of users (vllm #40896, #5543, #51902; sglang #39597; llm_reproducibility #7; torchtitan #2373).
_OF_SETTING: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "dtype", "quantization", "kv_cache_dtype", "hf_overrides", "load_format", "revision", "enable_lora",
            "logits_processors", "speculative_config", "structured_outputs_config",
        ),
        _ALWAYS,
    ),
    **dict.fromkeys(
        (
            "tensor_parallel_size", "data_parallel_size", "expert_parallel_size", "enable_expert_parallel",
            "decode_context_parallel_size",
        ),
        "splits sums over devices: changes bits, also with batch-invariant kernels",
    ),
    "pipeline_parallel_size": "not known to change bits, and not shown not to",
    **dict.fromkeys(
        (
            "max_num_seqs", "max_num_batched_tokens", "max_num_scheduled_tokens", "enable_chunked_prefill",
            "long_prefill_token_threshold", "async_scheduling", "scheduling_policy", "concurrency",
        ),
        _SHAPES,
    ),
    "enable_prefix_caching": "a cached prefix is computed in another shape: changes bits of later requests",
    **dict.fromkeys(
        (
            "enforce_eager", "compilation_config", "cudagraph_mode", "optimization_level", "cudagraph_capture_sizes",
            "max_cudagraph_capture_size",
        ),
        "compiled kernels fuse operations, and graphs pad batches: changes bits",
    ),
    **dict.fromkeys(
        (
            "attention_backend", "attention_config", "flash_attn_version", "block_size", "moe_backend",
            "linear_backend", "VLLM_ATTENTION_BACKEND", "VLLM_ALLREDUCE_USE_FLASHINFER", "VLLM_ALLREDUCE_USE_SYMM_MEM",
            "VLLM_USE_DEEP_GEMM", "VLLM_USE_FLASHINFER_SAMPLER", "VLLM_MARLIN_USE_ATOMIC_ADD",
            "VLLM_FLOAT32_MATMUL_PRECISION", "disable_custom_all_reduce", "VLLM_BATCH_INVARIANT",
            "enable_batch_invariance", "CUBLAS_WORKSPACE_CONFIG", "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY",
            "VLLM_CPU_SGL_KERNEL", "MKL_CBWR", "NVIDIA_TF32_OVERRIDE", "OPENBLAS_CORETYPE",
        ),
        _KERNELS,
    ),
    **dict.fromkeys(("enable_flashinfer_autotune", "VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR"),
        "kernels are chosen by timing: bits may change with every start"),
    **dict.fromkeys(
        (
            "VLLM_CACHE_ROOT", "VLLM_DISABLE_COMPILE_CACHE", "VLLM_USE_AOT_COMPILE", "VLLM_TUNED_CONFIG_FOLDER",
        ),
        "says where compiled or tuned kernels come from: may choose other ones",
    ),
    **dict.fromkeys(("omp_num_threads", "OMP_NUM_THREADS", "mkl_num_threads", "MKL_NUM_THREADS"),
        "splits sums over threads: may change bits"),
    **dict.fromkeys(("gpu_memory_utilization", "num_gpu_blocks_override", "swap_space", "cpu_offload_gb"),
        "indirectly: less room makes the engine recompute in other shapes"),
    **dict.fromkeys(("generation_config", "override_generation_config"),
        "silently changes sampling settings"),
    **dict.fromkeys(("prompt", "prompt_token_ids"), "another prompt is another computation"),
    "seed": "matters where tokens are sampled; none at temperature 0",
    **dict.fromkeys(("temperature", "top_p", "top_k", "min_p", "repetition_penalty"), _SAMPLING),
    **dict.fromkeys(("max_tokens", "sequences", "token_ids", "min_tokens"),
        "changes where an answer ends, nothing before"),
    **dict.fromkeys(("logprobs_mode", "max_logprobs"), "changes no token"),
    "max_model_len": "changes where answers are cut; with vLLM also the room for its cache",
    "driver": "may bring other kernels: changes bits",
    "numerics": "another arithmetic: changes bits",
}  # fmt: skip


def effect_of(kind: str, changes: Iterable[Change]) -> str:
    """Return what a difference of a kind does to bits, and what each setting in it is known for.

    Args:
        kind: The kind of a cause.
        changes: What differs; the innermost setting of each that is known is looked up.
    """
    names_of = (reversed(_names(change)) for change in changes)
    inner = (next(filter(_OF_SETTING.get, each), "") for each in names_of)
    known = {name: _OF_SETTING[name] for name in inner if name}
    # What has the same effect is said once.
    names: dict[str, list[str]] = {}
    for name, effect in list(known.items())[:_SHOWN]:
        names.setdefault(effect, []).append(name)
    said = [f"{', '.join(alike)}: {effect}" for effect, alike in names.items()]
    if said and kind in ("engine", "requests", "batching", "software"):
        return "; ".join(said)
    return "; ".join([_OF_KIND[kind], *said]) if kind in _OF_KIND else ""


def setting_of(change: Change) -> str:
    """Return the name of the setting that a change is about."""
    names = _names(change)
    return names[-1] if names else ""


def _names(change: Change) -> list[str]:
    if not change.name.startswith("/"):
        return [change.name]
    return [token for token in json_pointer.tokens(change.name) if not json_pointer.is_index(token)]
