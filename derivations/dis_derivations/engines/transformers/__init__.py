"""The engine `transformers`: one request at a time, in the interpreter of its own environment."""
