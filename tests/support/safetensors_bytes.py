"""Making safetensors files by hand, right and wrong ones."""

import json
from collections.abc import Mapping
from typing import Any


def safetensors_bytes(header: Any, data: bytes = b"") -> bytes:
    """Return a file with `header` (JSON, or raw bytes) in front of `data`."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + data


def one_byte_tensors(names: Mapping[str, int] | list[str]) -> bytes:
    """Return a file with a tensor of one byte under each name."""
    header = {
        name: {"dtype": "U8", "shape": [1], "data_offsets": [index, index + 1]}
        for index, name in enumerate(names)
    }
    return safetensors_bytes(header, bytes(len(names)))
