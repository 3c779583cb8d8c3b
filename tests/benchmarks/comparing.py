"""Two runs with big logits that part in their last values only, and two runs with the same results."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from bundles import Answer, Run, Tensor
from dis_store import Root, Store
from stopwatch import Comparison, Contender, Target

# At 32,768 logits of float32 a row, 32 requests of 1024 tokens.
REQUESTS, ROWS, VOCABULARY = 32, 1024, 32768
_ROW_BYTES = 4 * VOCABULARY
_LOGITS = "logits.safetensors"


def comparisons(place: Path) -> list[Comparison]:
    """Return the comparisons; their data are below `place`."""
    bench = _Bench(place)
    bench.write()
    size = REQUESTS * ROWS * _ROW_BYTES >> 20
    cmp, diff = "cmp", "dis diff"
    same, version = "dis diff of equal results", "dis --version"
    return [
        Comparison(
            f"Compare two runs with {size} MiB of logits each that differ in their last values",
            (Contender(cmp, bench.cmp, bench.warm), Contender(diff, bench.diff, bench.warm)),
            (Target(diff, cmp, 2.0),),
            rounds=3,
            remark=bench.remark,
        ),
        Comparison(
            f"Compare two runs in the store whose {size // 4} MiB of logits have one digest",
            (Contender(version, bench.version), Contender(same, bench.same)),
            (),
            rounds=7,
        ),
    ]


class _Bench:
    def __init__(self, place: Path) -> None:
        self._place = place
        self._a, self._b, self._store = place / "a", place / "b", place / "store"
        self._peak = 0

    def write(self) -> None:
        """Write two run directories, and a store in which two runs share the logits of the first."""
        answers = tuple(Answer(f"request-{number}", (1,) * ROWS) for number in range(REQUESTS))
        run = Run(answers=answers, logits={"00000.decode": Tensor([[0.0]])})
        for directory, last in ((self._a, b""), (self._b, b"\x01")):
            run.write(directory)
            _write_logits(directory / _LOGITS, last, REQUESTS * ROWS)
        small = self._place / _LOGITS
        _write_logits(small, b"", REQUESTS * ROWS // 4)
        with Store.open(self._store) as store:
            _share(store, run, small)
        small.unlink()

    def warm(self) -> None:
        """Bring the files into the page cache, so that no disk is measured."""
        for directory in (self._a, self._b):
            with (directory / _LOGITS).open("rb") as file:
                while file.read(1 << 20):
                    pass

    def cmp(self) -> None:
        subprocess.run(["cmp", "-s", self._a / _LOGITS, self._b / _LOGITS], check=False)

    def diff(self) -> None:
        command = _dis("diff", str(self._a), str(self._b))
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self._peak = max(self._peak, usage.ru_maxrss)

    def same(self) -> None:
        command = _dis("--store", str(self._store), "diff", "first", "second")
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)

    def version(self) -> None:
        subprocess.run(_dis("--version"), stdout=subprocess.DEVNULL, check=True)

    def remark(self) -> str:
        return f"`dis diff` took {self._peak >> 10} MiB of memory at most; 300 MB is the bound"


def _dis(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "dis_command", *arguments]


def _write_logits(path: Path, last: bytes, rows: int) -> None:
    """Write tensors of finite numbers that nothing compresses; `last` takes the place of bytes of the last number."""
    each = rows // REQUESTS
    header = json.dumps(
        {
            f"{number:05d}.decode": {
                "dtype": "F32",
                "shape": [each, VOCABULARY],
                "data_offsets": [
                    number * each * _ROW_BYTES,
                    (number + 1) * each * _ROW_BYTES,
                ],
            }
            for number in range(REQUESTS)
        }
    ).encode()
    block = bytearray(hashlib.shake_256(b"logits").digest(_ROW_BYTES))
    block[3::4] = b"\x40" * VOCABULARY
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for row in range(rows):
            block[:2] = row.to_bytes(2, "little")
            file.write(block)
        if last:
            file.seek(-4 - len(last), os.SEEK_END)
            file.write(last)


def _share(store: Store, run: Run, logits: Path) -> None:
    """Register two runs of other names with the same logits."""
    with store.new_tree() as tree:
        with tree.create(_LOGITS) as file, logits.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                file.write(chunk)
        captured = tree.register()
    for name in ("first", "second"):
        documents = {
            path: data for path, data in run.having(name=name).files().items() if path != _LOGITS
        }
        with store.new_tree() as tree:
            for path, content in documents.items():
                tree.write_bytes(path, content)
            tree.reference(_LOGITS, captured, _LOGITS)
            bundle = tree.register()
        store.set_root(name, Root(bundle, created_at="2026-01-01T00:00:00+00:00"))
