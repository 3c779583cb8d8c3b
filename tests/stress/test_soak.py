"""A process that has a store open for two weeks, which the clock passes in seconds: nothing grows."""

import gc
import hashlib
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from auditing import audit
from clock import Wall
from dis_store import Root, Store
from dis_store.garbage_collection.retirement import RetirementPolicy
from effort import effort
from trees import Blob, write_tree

pytestmark = pytest.mark.stress
DAYS, KEPT = 14, 8
TURNS_A_DAY = effort(4, 300)
# What Python's allocator and SQLite's cache may come to beside it; a leak of a page a turn is ten times that.
GROWTH_BYTES = 8 << 20


def resident() -> int:
    """Return the bytes of memory that this process has, after what is garbage in it was let go."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def files_of(path: Path) -> int:
    """Return how many files the store has, but for the days on which it was used, and locks: at most 256 by digest."""
    return sum(
        len(names) for top, _, names in os.walk(path) if Path(top).name not in {"days", "locks"}
    )


def turn(path: Path, number: int) -> None:
    """Do what a busy machine does with a store: add, name, read, verify on, collect.

    Each in a session of its own: one keeps all that it added or read as long as it is open.
    """
    data = hashlib.shake_256(b"%d" % number).digest(20_000)
    with Store.open(path) as store:
        files = {"a": Blob(data), "b/same": Blob(b"same"), "b/own": Blob(data[:9])}
        digest = write_tree(store, files)
        store.set_root(f"run-{number % (2 * KEPT)}", Root(digest, automatic=True))
        assert store.read_bytes(digest, "a") == data
    with Store.open(path) as store:
        store.verify_onwards(max_bytes=50_000)
        store.collect_garbage(policy=RetirementPolicy(keep_last=KEPT))


def test_a_process_that_works_for_two_weeks_lets_nothing_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tell: Callable[[str], None]
) -> None:
    wall, path = Wall(), tmp_path / "store"
    wall.hang(monkeypatch)
    seen: list[tuple[int, int, int]] = []
    for day in range(DAYS):
        for number in range(TURNS_A_DAY):
            wall.time += timedelta(days=1) / TURNS_A_DAY
            turn(path, day * TURNS_A_DAY + number)
        with Store.open(path) as store:
            store.optimise()
            assert store.verify().ok
        seen.append((descriptors(), files_of(path), resident()))
    # The first days fill the store and the caches.
    opened, files, memory = seen[DAYS // 2]
    assert [each[0] for each in seen[DAYS // 2 :]] == [opened] * (DAYS - DAYS // 2)
    assert max(each[1] for each in seen) <= files + 2 * KEPT
    assert seen[-1][2] - memory < GROWTH_BYTES
    with Store.open(path) as store:
        assert len(store.roots()) == KEPT
    assert audit(path) == []
    turns = DAYS * TURNS_A_DAY
    tell(
        f"{turns:,} turns: {opened} descriptors, {files} files, {(seen[-1][2] - memory) >> 10} KiB more memory"
    )
