"""A model comes into the store, with its tensors and without."""

import hashlib
import json
import os
from functools import partial
from pathlib import Path
from typing import BinaryIO

from adding import call_dis, remove
from stopwatch import Comparison, Contender, Target

TENSORS, BYTES = 290, 768 << 20
_EACH = BYTES // TENSORS // 2 * 2
_BLOCK_BYTES = 1 << 20
# No reader of safetensors looks any further.
_NO_HEADER = b"\xff" * 8


def comparisons(place: Path) -> list[Comparison]:
    """Return the comparison; its data are below `place`."""
    bench = _Bench(place)
    bench.write_files()
    with_, without = "dis store add, with tensors", "dis store add, without"
    return [
        Comparison(
            f"Add a safetensors file of 768 MiB with {TENSORS} tensors",
            (
                Contender(without, partial(bench.add, "without"), bench.clear),
                Contender(with_, partial(bench.add, "with"), bench.clear),
            ),
            (Target(with_, without, 1.1),),
            rounds=15,
        )
    ]


class _Bench:
    def __init__(self, place: Path) -> None:
        self._place = place
        self._store = place / "store"

    def write_files(self) -> None:
        """Write the same bytes twice, but for the length of the header."""
        header = json.dumps(_header()).encode()
        starts = {"with": len(header).to_bytes(8, "little"), "without": _NO_HEADER}
        for name, start in starts.items():
            with (self._place / name).open("wb") as file:
                file.write(start + header)
                _write_data(file)

    def clear(self) -> None:
        """Remove the store, and let the disk come to rest."""
        remove(self._store)
        os.sync()

    def add(self, name: str) -> None:
        call_dis(self._store, "store", "add", str(self._place / name))


def _header() -> dict[str, object]:
    return {
        f"model.layers.{number // 10}.part.{number % 10}.weight": {
            "dtype": "BF16",
            "shape": [_EACH // 2],
            "data_offsets": [number * _EACH, (number + 1) * _EACH],
        }
        for number in range(TENSORS)
    }


def _write_data(file: BinaryIO) -> None:
    """Write bytes that nothing compresses."""
    block = hashlib.shake_256(b"tensors").digest(_BLOCK_BYTES)
    left = TENSORS * _EACH
    for part in range(left // _BLOCK_BYTES + 1):
        data = (part.to_bytes(8, "big") + block[8:])[:left]
        file.write(data)
        left -= len(data)
