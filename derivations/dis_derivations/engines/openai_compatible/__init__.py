"""The engine `openai_compatible`: a vLLM server that runs already, asked over HTTP."""
