"""A closure of large files to a registry on this machine and from it, beside skopeo, which copies the same blobs."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from adding import call_dis, compiled_environment, remove
from nix_store import quiet
from real_registry import PROGRAM, RealRegistry, Settings, free_port
from stopwatch import Comparison, Contender, Target

FILES, TENSORS = 3, 16
TENSOR_BYTES = 32 << 20
_MEGABYTE = 1_000_000
MOST_MEGABYTES = 200
_SAFE = ("--all", "--preserve-digests", "--src-tls-verify=false", "--dest-tls-verify=false")


def comparisons(place: Path) -> list[Comparison]:
    """Return the comparisons; their data is below `place`."""
    for program in (PROGRAM, "skopeo"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is missing: apt-get install docker-registry skopeo")
    bench = _Bench(place)
    size = f"{FILES} files of {(TENSORS * TENSOR_BYTES) >> 20} MiB"
    return [
        Comparison(
            f"Push {size}",
            (
                Contender("skopeo copy", bench.copy_there, bench.empty),
                Contender("dis push", bench.push, bench.empty),
                # The registry has it all from the contender before.
                Contender("dis push, again", bench.push_again),
            ),
            (Target("dis push", "skopeo copy", 1.0),),
            remark=bench.remark_on_pushes,
        ),
        Comparison(
            f"Pull {size}",
            (
                Contender("skopeo copy", bench.copy_here, bench.clear),
                Contender("dis pull", bench.pull, bench.clear),
            ),
            (Target("dis pull", "skopeo copy", 1.0),),
            remark=bench.remark_on_pulls,
        ),
    ]


class _Bench:
    def __init__(self, place: Path) -> None:
        self._store, self._other = place / "store", place / "other"
        self._copy, self._pulled = place / "copy", place / "pulled"
        self._registry = RealRegistry(
            place / "registry", f"127.0.0.1:{free_port()}", Settings(delete=False)
        )
        (place / "registry").mkdir()
        self._registry.start()
        self._place = self._registry.reference("bench:one")
        self._peaks = {"push": 0, "pull": 0}
        self._again: list[float] = []
        self._sent_again = 0
        self._add(place / "closure", FILES, "closure")
        self._dis(self._store, "push", "closure", self._place)
        quiet(["skopeo", "copy", *_SAFE, self._docker, f"dir:{self._copy}"])
        self._of_a_tensor = self._changed_tensor(place)
        self._peaks = {"push": 0, "pull": 0}

    def __del__(self) -> None:
        self._registry.stop()

    @property
    def _docker(self) -> str:
        return self._place.replace("oci://", "docker://")

    def _add(self, directory: Path, files: int, name: str, *, changed: int | None = None) -> None:
        directory.mkdir()
        for number in range(files):
            _write_weights(directory / f"model-{number}.safetensors", changed)
        call_dis(self._store, "store", "add", "--adopt", "--name", name, str(directory))

    def empty(self) -> None:
        """Give the registry an empty disk, and let it come to rest."""
        self._registry.stop()
        remove(self._registry.directory / "blobs")
        self._registry.start()
        os.sync()

    def clear(self) -> None:
        """Remove what was pulled, and let the disk come to rest."""
        remove(self._other, self._pulled)
        os.sync()

    def copy_there(self) -> None:
        quiet(["skopeo", "copy", *_SAFE, f"dir:{self._copy}", self._docker])

    def copy_here(self) -> None:
        quiet(["skopeo", "copy", *_SAFE, self._docker, f"dir:{self._pulled}"])

    def push(self) -> None:
        self._dis(self._store, "push", "closure", self._place)

    def push_again(self) -> None:
        begun = time.perf_counter()
        document = self._dis(self._store, "push", "closure", self._place)
        self._again.append(time.perf_counter() - begun)
        self._sent_again = max(self._sent_again, int(document["sent_bytes"]))

    def pull(self) -> None:
        self._dis(self._other, "pull", self._place)

    def _changed_tensor(self, place: Path) -> tuple[int, int]:
        """Push a file in parts, and then one that differs in a tensor; return what the second has, and what it sent."""
        for name, changed in (("before", None), ("after", 5)):
            self._add(place / name, 1, name, changed=changed)
            parts = self._registry.reference(f"parts:{name}")
            document = self._dis(self._store, "push", name, parts, "--parts")
        return int(document["bytes"]), int(document["sent_bytes"])

    def _dis(self, store: Path, command: str, *arguments: str) -> dict[str, int]:
        program = str(Path(sys.executable).with_name("dis"))
        process = subprocess.Popen(
            [program, "--store", str(store), "--progress", "none", command, *arguments, "--json"],
            stdout=subprocess.PIPE,
            env=compiled_environment(),
        )
        assert process.stdout is not None
        with process.stdout as stream:
            data = stream.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, (command, arguments)
        self._peaks[command] = max(self._peaks[command], usage.ru_maxrss * 1024 // _MEGABYTE)
        document: dict[str, int] = json.loads(data)
        return document

    def remark_on_pushes(self) -> str:
        """Say what else is asked for: little memory, nothing sent twice, and little where little has changed."""
        size, sent = self._of_a_tensor
        return (
            f"At most {self._peaks['push']} MB of memory were in use by `dis push`; {MOST_MEGABYTES} MB are allowed. "
            f"Of an unchanged closure {self._sent_again} bytes of blobs were sent, in at most {max(self._again):.2f} s;"
            f" none in under 1 s are asked for. Of a file in parts with one changed tensor of {TENSORS}, "
            f"{sent / size:.1%} were sent; under 10 % are asked for."
        )

    def remark_on_pulls(self) -> str:
        """Say how much memory was needed."""
        return (
            f"At most {self._peaks['pull']} MB of memory were in use by `dis pull`;"
            f" {MOST_MEGABYTES} MB are allowed."
        )


def _write_weights(path: Path, changed: int | None) -> None:
    """Write a safetensors file of sixteen tensors, of bytes that nothing compresses; one may be another one."""
    header = {
        f"layer.{number:02d}": {
            "dtype": "U8",
            "shape": [TENSOR_BYTES],
            "data_offsets": [number * TENSOR_BYTES, (number + 1) * TENSOR_BYTES],
        }
        for number in range(TENSORS)
    }
    raw = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        for number in range(TENSORS):
            name = f"{path.name} {number} {number == changed}"
            block = hashlib.shake_256(name.encode()).digest(1 << 20)
            for part in range(TENSOR_BYTES >> 20):
                file.write(part.to_bytes(8, "big") + block[8:])
