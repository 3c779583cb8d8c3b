"""Reading large files again, and comparing them with their digests."""

import os
from functools import partial
from pathlib import Path

from adding import call_dis, write_files
from nix_store import NixStore, quiet
from stopwatch import Comparison, Contender, Target

# The second so large that starting a program counts for little.
COUNTS = {3: "768 MiB in three files", 12: "3 GiB in twelve files"}
# The size of the weights of a model of six billion parameters: what counts is how fast bytes are hashed.
MANY = 48


def comparisons(place: Path) -> list[Comparison]:
    """Return the comparisons; their data is below `place`."""
    return [
        *(_beside_nix(place / str(count), count, title) for count, title in COUNTS.items()),
        _beside_blake3(place / str(MANY)),
    ]


def _beside_nix(place: Path, count: int, title: str) -> Comparison:
    files, nix = place / "files", NixStore(place / "nix")
    dis = partial(call_dis, place / "store")

    def fill() -> None:
        if not files.exists():
            write_files(files, count)
            nix.start()
            nix.call("nix-store", "--add", files)
            dis("store", "add", str(files))
            os.sync()

    return Comparison(
        f"Verify {title}",
        (
            Contender(
                "nix store verify --all",
                lambda: nix.call("nix", "store", "verify", "--all", "--no-trust"),
                fill,
            ),
            Contender("dis store verify --all", lambda: dis("store", "verify", "--all"), fill),
            Contender("b3sum", lambda: _blake3_alone(files), fill),
        ),
        (Target("dis store verify --all", "nix store verify --all", 1 / 4),),
    )


def _beside_blake3(place: Path) -> Comparison:
    """Both read the files of the store, so that the memory of the machine holds them once."""
    files, store = place / "files", place / "store"

    def fill() -> None:
        if not store.exists():
            write_files(files, MANY)
            call_dis(store, "store", "add", "--adopt", str(files))
            os.sync()

    return Comparison(
        f"Verify {MANY // 4} GiB in {MANY} files",
        (
            Contender("b3sum", lambda: _blake3_alone(store / "objects"), fill),
            Contender(
                "dis store verify --all", lambda: call_dis(store, "store", "verify", "--all"), fill
            ),
        ),
        (Target("dis store verify --all", "b3sum", 1 / 0.9),),
    )


def _blake3_alone(directory: Path) -> None:
    quiet(["b3sum", *sorted(str(path) for path in directory.rglob("*.bin"))])
