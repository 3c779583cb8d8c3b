"""Reading large files again, and comparing them with their digests."""

import os
from functools import partial
from pathlib import Path

from adding import call_dis, write_files
from nix_store import NixStore, quiet
from stopwatch import Comparison, Contender, Target

# The second so large that starting a program counts for little.
COUNTS = {3: "768 MiB in three files", 12: "3 GiB in twelve files"}


def comparisons(place: Path) -> list[Comparison]:
    """Return the comparisons; their data is below `place`."""
    return [_comparison(place / str(count), count, title) for count, title in COUNTS.items()]


def _comparison(place: Path, count: int, title: str) -> Comparison:
    files, nix = place / "files", NixStore(place / "nix")
    dis = partial(call_dis, place / "store")

    def fill() -> None:
        if not files.exists():
            write_files(files, count)
            nix.start()
            nix.call("nix-store", "--add", files)
            dis("store", "add", str(files))
            os.sync()

    def blake3_alone() -> None:
        quiet(["b3sum", *map(str, sorted(files.iterdir()))])

    return Comparison(
        f"Verify {title}",
        (
            Contender(
                "nix store verify --all",
                lambda: nix.call("nix", "store", "verify", "--all", "--no-trust"),
                fill,
            ),
            Contender("dis store verify --all", lambda: dis("store", "verify", "--all"), fill),
            Contender("b3sum", blake3_alone, fill),
        ),
        (
            Target("dis store verify --all", "nix store verify --all", 1 / 4),
            Target("dis store verify --all", "b3sum", 1 / 0.9),
        ),
    )
