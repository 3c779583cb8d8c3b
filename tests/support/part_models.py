"""Weights of sixteen tensors that differ by seed, to be sent in parts."""

import json
import random
from collections.abc import Mapping

from dis_derivations.distribution.build_records import BuildRecords
from dis_derivations.distribution.kept import Kept, NamedObject
from dis_store import Store
from dis_store.digest import Digest

TENSORS = 16


def model_bytes(tensor_bytes: int, *, seed: int = 1, changed: int | None = None) -> bytes:
    """Return a safetensors file of sixteen tensors; one of them has other bytes where `changed` says so."""
    header = {
        f"layer.{number:02d}": {
            "dtype": "U8",
            "shape": [tensor_bytes],
            "data_offsets": [number * tensor_bytes, (number + 1) * tensor_bytes],
        }
        for number in range(TENSORS)
    }
    raw = json.dumps(header).encode()
    tensors = [
        random.Random(f"{seed} {number} {number == changed}").randbytes(tensor_bytes)  # noqa: S311
        for number in range(TENSORS)
    ]
    return len(raw).to_bytes(8, "little") + raw + b"".join(tensors)


def add_weights(store: Store, files: Mapping[str, bytes]) -> Digest:
    """Register an object of files; return it."""
    with store.new_tree() as tree:
        for path, data in files.items():
            tree.write_bytes(path, data)
        return tree.register()


def kept_weights(digest: Digest) -> Kept:
    """Return weights as what a push sends, without any build."""
    named = NamedObject(digest, "weights", "weights")
    return Kept(digest, (named,), BuildRecords(digest, None, None, (), ()))
