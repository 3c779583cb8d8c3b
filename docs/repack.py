"""Give a safetensors file another header, and leave its tensors as they are: other bytes, the same weights.

Usage: python docs/repack.py MODEL.safetensors
"""

import json
import sys
from pathlib import Path


def repacked(data: bytes) -> bytes:
    """Return the file with a note in its header."""
    length = int.from_bytes(data[:8], "little")
    header = {**json.loads(data[8 : 8 + length]), "__metadata__": {"note": "repacked"}}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_bytes(repacked(path.read_bytes()))
