"""Servers: vLLM's own OpenAI-compatible one, started on a closure of the store, watched and stopped."""
