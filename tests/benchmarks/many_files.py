"""Many small files: into the store, and what others do with them."""

import os
import subprocess
from functools import partial
from pathlib import Path

from adding import call_dis, remove
from nix_store import NixStore, quiet
from stopwatch import Comparison, Contender, Target

COUNT, DIRECTORIES = 20_000, 200


def comparisons(place: Path) -> list[Comparison]:
    """Return the comparison; its data is below `place`."""
    files, copy, repository = place / "files", place / "copy", place / "repository"
    store, nix = place / "store", NixStore(place / "nix")
    dis = partial(call_dis, store)
    _write(files)

    def clear() -> None:
        remove(store, copy, repository)
        nix.start()
        os.sync()

    def clear_and_initialise() -> None:
        clear()
        quiet(["git", "init", "--quiet", str(repository)])
        subprocess.run(["cp", "-r", str(files), str(repository / "files")], check=True)
        os.sync()

    return [
        Comparison(
            f"Add {COUNT:,} files of 1 KiB",
            (
                Contender("nix-store --add", lambda: nix.call("nix-store", "--add", files), clear),
                Contender("dis store add", lambda: dis("store", "add", str(files)), clear),
                Contender(
                    "git add",
                    lambda: quiet(["git", "-C", str(repository), "add", "files"]),
                    clear_and_initialise,
                ),
                Contender(
                    "cp -r", lambda: subprocess.run(["cp", "-r", files, copy], check=True), clear
                ),
            ),
            (Target("dis store add", "nix-store --add", 1.0),),
            rounds=3,
        )
    ]


def _write(files: Path) -> None:
    for number in range(COUNT):
        directory = files / f"d{number % DIRECTORIES}"
        if number < DIRECTORIES:
            directory.mkdir(parents=True)
        (directory / f"f{number}").write_bytes(number.to_bytes(8, "big") * 128)
