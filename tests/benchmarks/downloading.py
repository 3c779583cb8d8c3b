"""Large files from a server on this machine into the store, beside curl and sha256sum."""

import hashlib
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

from adding import FILE_BYTES, compiled_environment, remove
from nix_store import quiet
from stopwatch import Comparison, Contender, Target
from tiny_runs import lock_of, write_manifest

FILES = 4
_MEGABYTE = 1_000_000
MOST_MEGABYTES = 200
_SERVER = Path(__file__).parents[1] / "support" / "sendfile_server.py"


def comparisons(place: Path) -> list[Comparison]:
    """Return the comparison; its data is below `place`."""
    bench = _Bench(place)
    return [
        Comparison(
            f"Download {FILES} files of 256 MiB",
            (
                Contender("curl and sha256sum", bench.curl, os.sync),
                Contender("dis realize", bench.realize, bench.clear),
                # The store has it all from the contender before.
                Contender("dis realize, from another address", bench.realize_again),
            ),
            (Target("dis realize", "curl and sha256sum", 1 / 0.8),),
            remark=bench.remark,
        )
    ]


class _Bench:
    def __init__(self, place: Path) -> None:
        self._store = place / "store"
        config = write_manifest(place / "manifest")
        self._served = place / "manifest" / "model"
        (self._served / "model.safetensors").unlink()
        self._weights = [f"model-{number}.safetensors" for number in range(FILES)]
        for name in self._weights:
            _write_weights(self._served / name)
        self._server = subprocess.Popen(
            [sys.executable, _SERVER, self._served], stdout=subprocess.PIPE, text=True
        )
        assert self._server.stdout is not None
        self._base = f"http://127.0.0.1:{self._server.stdout.readline().strip()}/"
        self._config = self._manifest(config, self._base)
        self._peak = self._sent_again = 0
        self._dis("lock", str(self._config))
        self._other = self._pinned(self._config, self._base.replace("127.0.0.1", "localhost"))
        self._dis("lock", str(self._other))
        self._peak = 0

    def __del__(self) -> None:
        self._server.kill()

    def _manifest(self, config: Path, base: str) -> Path:
        document = json.loads(config.read_text("utf-8"))
        listed = {
            "weights": self._weights,
            "tokenizer": sorted(path.name for path in self._served.glob("tokenizer*.json")),
            "config": ["config.json"],
        }
        for block, names in listed.items():
            document["model"][block]["files"] = [{"path": name} for name in names]
        document["model"]["weights"]["source"] = {"type": "url", "url": base}
        config.write_text(json.dumps(document), "utf-8")
        return config

    def clear(self) -> None:
        """Remove the store, and let the disk come to rest."""
        remove(self._store)
        os.sync()

    def curl(self) -> None:
        for name in self._weights:
            quiet(["sh", "-c", f"curl --silent {self._base}{name} | sha256sum"])

    def realize(self) -> None:
        self._dis("realize", f"{self._config}#weights", "--locked")

    def realize_again(self) -> None:
        before = self._sent()
        self._dis("realize", f"{self._other}#weights", "--locked")
        self._sent_again = max(self._sent_again, self._sent() - before)

    def _dis(self, *arguments: str) -> None:
        command = [str(Path(sys.executable).with_name("dis")), "--store", str(self._store)]
        process = subprocess.Popen(
            [*command, "--progress", "none", *arguments],
            stdout=subprocess.DEVNULL,
            env=compiled_environment(),
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, arguments
        self._peak = max(self._peak, usage.ru_maxrss * 1024 // _MEGABYTE)

    def _sent(self) -> int:
        with urllib.request.urlopen(f"{self._base}sent") as answer:  # noqa: S310 - our own server
            return int(answer.read())

    def remark(self) -> str:
        """Say what else is asked for: little memory, and no byte from another address."""
        return (
            f"At most {self._peak} MB of memory were in use by `dis realize`; {MOST_MEGABYTES} MB are allowed. "
            f"From another address, pinned by digests, {self._sent_again} bytes were downloaded."
        )

    def _pinned(self, config: Path, base: str) -> Path:
        """Return another manifest of the same files at another address, with the digests of the lock."""
        other = config.with_name("other.json")
        other.write_bytes(config.read_bytes())
        self._manifest(other, base)
        lock = json.loads(lock_of(config).read_text("utf-8"))
        digests = {file["path"]: file["digest"] for file in lock["artifacts"]}
        document = json.loads(other.read_text("utf-8"))
        document["metadata"]["name"] = "other"
        for block in ("weights", "tokenizer", "config"):
            for file in document["model"][block]["files"]:
                file["digest"] = digests[file["path"]]
        other.write_text(json.dumps(document), "utf-8")
        return other


def _write_weights(path: Path) -> None:
    """Write a safetensors file of 256 MiB, of bytes that nothing compresses."""
    block = hashlib.shake_256(path.name.encode()).digest(1 << 20)
    tensor = {"dtype": "U8", "shape": [FILE_BYTES], "data_offsets": [0, FILE_BYTES]}
    header = json.dumps({path.stem: tensor}).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for part in range(FILE_BYTES >> 20):
            file.write(part.to_bytes(8, "big") + block[8:])
