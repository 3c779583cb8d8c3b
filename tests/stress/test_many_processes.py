"""Many processes realise, collect, verify and reindex at once, for a while."""

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from auditing import audit
from builds import build_of, key_of
from dis_store import Digest, Root, Store
from effort import effort
from processes import at_once
from trees import Blob, write_text, write_tree

pytestmark = pytest.mark.stress
SECONDS = effort(60, 600)
REALISERS = 12
DERIVATIONS = 40


def realise(store: Store, number: int, built: Path) -> Digest:
    """Build a derivation as a realiser does, or find it built, and use what came out."""
    name = f"build {number}"
    with store.build_lock(key_of(name)):
        found = store.chosen(key_of(name))
        if found is None:
            inner = write_text(store, f"inner {number}")
            out = write_tree(store, {"n": Blob(b"%d" % number)}, {"r": (inner, None)})
            found = store.add_realisation(build_of(name, {"out": out}))
            with built.open("a", encoding="ascii") as file:
                file.write(f"{number}\n")
    out = found.outputs["out"]
    for digest in store.closure([out]):
        assert store.object_path(digest).is_dir(), "the closure misses a path"
    assert store.read_bytes(out, "r/text") == f"inner {number}".encode()
    return out


@pytest.mark.slow
def test_all_work_at_once_and_nothing_is_built_twice_or_missing(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    path, built = tmp_path / "store", tmp_path / "built"
    end = time.monotonic() + SECONDS
    Store.open(path).close()
    counts = tmp_path / "turns"

    def turns(work: Callable[[Store, random.Random], object], seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311 - which one is no secret
        done = 0
        while time.monotonic() < end:
            with Store.open(path) as store:
                work(store, chance)
            done += 1
        with counts.open("a", encoding="ascii") as file:
            file.write(f"{done}\n")

    def some(store: Store, chance: random.Random) -> None:
        for _ in range(10):
            number = chance.randrange(DERIVATIONS)
            # From its first build on it is kept, so that a second one would be a fault.
            store.set_root(f"run-{number}", Root(realise(store, number, built)))
            write_text(store, f"garbage {chance.random()}")

    others: list[Callable[[Store, random.Random], object]] = [
        lambda store, _: store.collect_garbage(),
        lambda store, _: store.collect_garbage(),
        lambda store, _: store.verify(None),
        lambda store, _: store.reindex(),
    ]
    workers = [*[some] * REALISERS, *others]
    at_once([partial(turns, work, seed) for seed, work in enumerate(workers)])
    with Store.open(path) as store:
        for number in range(DERIVATIONS):
            store.set_root(f"run-{number}", Root(realise(store, number, built)))
    assert sorted(map(int, built.read_text("ascii").split())) == list(range(DERIVATIONS))
    with Store.open(path) as store:
        assert store.verify(None, jobs=2).ok
    with Store.open(path) as store:
        store.collect_garbage()
        assert len(store.objects()) == 2 * DERIVATIONS
    assert audit(path) == []
    done = list(map(int, counts.read_text("ascii").split()))
    tell(f"{SECONDS} s, {len(done)} processes, {sum(done)} turns, 0 built twice, 0 missing")
