"""Fields of a manifest that count for an engine in a process of its own, and are notes for the reference engine."""

ENGINE_FIELDS = frozenset(
    {
        "capture.activations.hooks",
        "cuda_stack.env",
        "runtime.env",
        "runtime.locale.lang",
        "runtime.locale.tz",
        "runtime.threads.omp_num_threads",
        "runtime.threads.mkl_num_threads",
        "vllm.env",
        "vllm.reproducibility.enable_batch_invariance",
        "vllm.engine_args.attention_backend",
        "vllm.engine_args.block_size",
        "vllm.engine_args.dtype",
        "vllm.engine_args.enable_chunked_prefill",
        "vllm.engine_args.enforce_eager",
        "vllm.engine_args.gpu_memory_utilization",
        "vllm.engine_args.kv_cache_dtype",
        "vllm.engine_args.seed",
    }
)
