"""Model directories for tests: small files with the names and forms of a real checkpoint."""

import json
import struct
from pathlib import Path

MODEL_FILES = (
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
)


def safetensors_bytes(*values: float, name: str = "weight") -> bytes:
    """Return a safetensors file with one float32 tensor."""
    data = struct.pack(f"<{len(values)}f", *values)
    tensor = {"dtype": "F32", "shape": [len(values)], "data_offsets": [0, len(data)]}
    header = json.dumps({name: tensor}).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + data


def write_model(directory: Path) -> Path:
    """Write a model of one weight file, and return its directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in MODEL_FILES:
        (directory / name).write_text("{}\n" if name.endswith(".json") else "text\n", "utf-8")
    (directory / "model.safetensors").write_bytes(safetensors_bytes(1.0, 2.0))
    return directory
