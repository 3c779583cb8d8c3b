"""The `vllm` engine: vLLM's own classes, driven in its own interpreter."""
