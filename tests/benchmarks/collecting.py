"""Garbage collection of many small objects."""

import os
import subprocess
import sys
from pathlib import Path

from adding import compiled_environment, remove
from dis_store import FileEntry, Store, Tree
from dis_store.hashing import Content, ContentHasher
from dis_store.writing.index_rows import enter_contents, enter_object
from nix_store import NixStore
from stopwatch import Comparison, Contender, Target

COUNT, NIX_COUNT = 100_000, 20_000
MOST_MEMORY = 300_000_000
_AT_ONCE = 50_000
_NIX = """
builtins.foldl' (n: m: builtins.seq (builtins.toFile "f${toString m}" "content ${toString m}") n) 0
  (builtins.genList (n: n) %d)
"""


def comparisons(place: Path) -> list[Comparison]:
    """Return the comparison; the stores are below `place`."""
    nix, store = NixStore(place / "nix"), place / "store"
    peaks: list[int] = []

    def fill_nix() -> None:
        nix.start()
        nix.call("nix-instantiate", "--eval", "--read-write-mode", "--expr", _NIX % NIX_COUNT)
        os.sync()

    return [
        Comparison(
            f"Collect {COUNT:,} dead objects (Nix: {NIX_COUNT:,}), for each object",
            (
                Contender("nix-store --gc", lambda: nix.call("nix-store", "--gc"), fill_nix),
                Contender("dis gc", lambda: peaks.append(collect(store)), lambda: fill(store)),
            ),
            (Target("dis gc", "nix-store --gc", 1.0),),
            rounds=3,
            units={"nix-store --gc": NIX_COUNT, "dis gc": COUNT},
            remark=lambda: (
                f"At most {max(peaks) / 1e6:.0f} MB of memory were in use by `dis gc`;"
                f" {MOST_MEMORY // 10**6} MB are allowed."
            ),
        )
    ]


def collect(store: Path) -> int:
    """Run the command; return how much memory it had at most, in bytes."""
    command = [str(Path(sys.executable).with_name("dis")), "--store", str(store), "gc", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=compiled_environment())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError("dis gc failed")
    return usage.ru_maxrss * 1024


def fill(path: Path, count: int = COUNT) -> None:
    """Make a store of objects of one small file each, by hand: to register them would wait for the disk for minutes."""
    remove(path)
    with Store.open(path) as store:
        # The index is made first: an empty one beside objects is refused.
        store.objects()
        layout = store._foundation.layout
        for room in ("objects", "manifests", "links"):
            for shard in range(256):
                (layout.room(room) / f"{shard:02x}").mkdir()
        for start in range(0, count, _AT_ONCE):
            numbers = range(start, min(start + _AT_ONCE, count))
            made = [_place(store, b"content %d" % number) for number in numbers]
            with store._foundation.index.transaction() as transaction:
                for tree, _ in made:
                    enter_object(transaction, tree)
                enter_contents(transaction, (content for _, content in made))
    os.sync()


def _place(store: Store, data: bytes) -> tuple[Tree, Content]:
    layout = store._foundation.layout
    hasher = ContentHasher()
    hasher.update(data)
    content = hasher.finish()
    tree = Tree((FileEntry("file", content.size, content.blake3),))
    directory = layout.object(tree.digest)
    directory.mkdir()
    file = directory / "file"
    file.write_bytes(data)
    file.chmod(0o444)
    os.link(file, layout.link(content.blake3, executable=False))
    layout.manifest(tree.digest).write_bytes(tree.encode())
    directory.chmod(0o555)
    return tree, content
