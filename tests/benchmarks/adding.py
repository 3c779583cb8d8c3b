"""Large files: into the store, and moved into the store."""

import hashlib
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from nix_store import NixStore, quiet
from run_shelf import make_writable
from stopwatch import Comparison, Contender, Target

FILES, FILE_BYTES = 3, 256 << 20
_HASH = (
    "import hashlib, sys\n"
    "for path in sys.argv[1:]:\n"
    "    with open(path, 'rb') as file: hashlib.file_digest(file, 'sha256')\n"
)


def comparisons(place: Path) -> list[Comparison]:
    """Return the comparisons; their data is below `place`."""
    bench = _Bench(place)
    write_files(bench.files, FILES)
    nix = Contender("nix-store --add", bench.nix_add, bench.clear)
    return [
        Comparison(
            "Add 768 MiB in three files",
            (
                nix,
                Contender("dis store add", bench.add, bench.clear),
                Contender("dis store add --adopt", bench.adopt, bench.clear_and_copy),
                Contender("sha256 alone", bench.hash, os.sync),
                Contender("cp", bench.copy, bench.clear),
            ),
            (
                Target("dis store add", "nix-store --add", 1 / 1.5),
                Target("dis store add --adopt", "nix-store --add", 1 / 4),
                Target("dis store add --adopt", "sha256 alone", 1 / 0.9),
            ),
        ),
    ]


class _Bench:
    def __init__(self, place: Path) -> None:
        self.files, self._moving, self._copy = place / "files", place / "moving", place / "copy"
        self._store = place / "store"
        self._nix = NixStore(place / "nix")
        self._dis = partial(call_dis, self._store)

    def clear(self) -> None:
        """Remove all stores and copies, and let the disk come to rest."""
        remove(self._store, self._moving, self._copy)
        self._nix.start()
        os.sync()

    def clear_and_copy(self) -> None:
        self.clear()
        shutil.copytree(self.files, self._moving)
        os.sync()

    def nix_add(self) -> None:
        self._nix.call("nix-store", "--add", self.files)

    def add(self) -> None:
        self._dis("store", "add", str(self.files))

    def adopt(self) -> None:
        self._dis("store", "add", "--adopt", str(self._moving))

    def hash(self) -> None:
        quiet([sys.executable, "-c", _HASH, *map(str, sorted(self.files.iterdir()))])

    def copy(self) -> None:
        subprocess.run(
            ["cp", "-r", "--reflink=never", str(self.files), str(self._copy)], check=True
        )


def write_files(directory: Path, count: int) -> None:
    """Write files of 256 MiB each, of bytes that nothing compresses."""
    directory.mkdir(parents=True)
    for number in range(count):
        block = hashlib.shake_256(bytes([number])).digest(1 << 20)
        with (directory / f"model-{number}.bin").open("wb") as file:
            for part in range(FILE_BYTES >> 20):
                file.write(part.to_bytes(8, "big") + block[8:])


def call_dis(store: Path, *argv: str) -> None:
    """Run the command on a store, as a user would."""
    command = str(Path(sys.executable).with_name("dis"))
    quiet([command, "--store", str(store), "--progress", "none", *argv], compiled_environment())


def compiled_environment() -> dict[str, str]:
    """Return an environment in which Python keeps what it compiled, as it does by default."""
    dropped = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if name not in dropped}


def remove(*paths: Path) -> None:
    """Remove directories, read-only ones too."""
    for path in paths:
        if path.exists():
            make_writable(path)
            subprocess.run(["rm", "-rf", str(path)], check=True)
