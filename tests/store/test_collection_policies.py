"""What a collection gives up, in which order, and that what it says is so, on random graphs."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings, strategies

from auditing import audit
from dis_store import RetirementPolicy, SpaceGoal, Store
from store_graphs import StoreGraph, graphs, make

POLICIES = strategies.builds(
    RetirementPolicy, keep_last=strategies.none() | strategies.integers(0, 3)
)
AMOUNTS = strategies.none() | strategies.integers(0, 200_000)
EXAMPLES = settings(max_examples=25, deadline=None)


@contextmanager
def store_of(graph: StoreGraph) -> Iterator[tuple[Path, dict[str, bool]]]:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "store"
        yield place, dict(make(graph, place))


def used_bytes(place: Path) -> int:
    """Return the bytes of the different files below `objects` and `links`, as `du --apparent-size` counts them."""
    sizes: dict[int, int] = {}
    for room in ("objects", "links"):
        for path in (place / room).rglob("*"):
            if path.is_file() and not path.is_symlink():
                sizes[path.stat().st_ino] = path.stat().st_size
    return sum(sizes.values())


@EXAMPLES
@given(graphs(), POLICIES, AMOUNTS, strategies.booleans())
def test_a_collection_does_what_its_dry_run_says_and_frees_what_it_says(
    graph: StoreGraph, policy: RetirementPolicy, amount: int | None, drop_inputs: bool
) -> None:
    with store_of(graph) as (place, roots):
        before = used_bytes(place)
        goal = SpaceGoal(max_freed=amount)
        with Store.open(place) as store:
            foretold = store.collect_garbage(
                dry_run=True, policy=policy, goal=goal, drop_inputs=drop_inputs
            )
            assert used_bytes(place) == before
            done = store.collect_garbage(policy=policy, goal=goal, drop_inputs=drop_inputs)
            kept = store.roots()
        assert done == replace(foretold, dry_run=False, roots=(), freed_inodes=0)
        assert done.freed_bytes == before - used_bytes(place)
        assert audit(place) == []
        # Named roots never go, automatic ones from the least recently used on.
        automatic = [name for name, made_by_dis in roots.items() if made_by_dis]
        assert list(done.retired_roots) == automatic[: len(done.retired_roots)]
        assert kept.keys() == roots.keys() - set(done.retired_roots)
        if policy.keep_last is None:
            assert done.retired_roots == ()
        else:
            assert len(automatic) - len(done.retired_roots) >= min(policy.keep_last, len(automatic))


@EXAMPLES
@given(graphs(), strategies.integers(0, 200_000))
def test_a_collection_stops_as_soon_as_it_is_enough(graph: StoreGraph, amount: int) -> None:
    with store_of(graph) as (place, _), Store.open(place) as store:
        everything = RetirementPolicy(keep_last=0)
        most = store.collect_garbage(dry_run=True, policy=everything)
        done = store.collect_garbage(policy=everything, goal=SpaceGoal(max_freed=amount))
        assert done.reached == (done.freed_bytes >= amount)
        if most.freed_bytes >= amount:
            assert done.reached
        else:
            assert done.freed_bytes == most.freed_bytes
        if len(done.retired_roots) > 1:
            *earlier, _ = done.retired_roots
            # One root less would not have been enough.
            with store_of(graph) as (again, _), Store.open(again) as fresh:
                for name in earlier:
                    fresh.remove_root(name)
                assert fresh.collect_garbage().freed_bytes < amount


@EXAMPLES
@given(graphs(), strategies.data())
def test_what_only_a_root_keeps_is_what_its_removal_frees(
    graph: StoreGraph, data: strategies.DataObject
) -> None:
    with store_of(graph) as (place, roots), Store.open(place) as store:
        weights = {each.name: each for each in store.weigh_roots()}
        assert weights.keys() == roots.keys()
        store.collect_garbage()
        if roots:
            name = data.draw(strategies.sampled_from(sorted(roots)))
            kept = used_bytes(place)
            store.remove_root(name)
            freed = store.collect_garbage().freed_bytes
            assert weights[name].only_bytes == freed == kept - used_bytes(place)
            assert weights[name].kind == ("automatic" if roots[name] else "named")


def test_an_amount_that_is_free_already_is_not_asked_for(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    assert SpaceGoal(keep_free=1).wanted(tmp_path) == 0
    assert SpaceGoal().wanted(tmp_path) is None
    assert SpaceGoal(max_freed=5, keep_free=1).wanted(tmp_path) == 0
    wanted = SpaceGoal(keep_free=2 * free).wanted(tmp_path)
    assert wanted is not None
    assert wanted > free // 2
    assert SpaceGoal(max_freed=5, keep_free=2 * free).wanted(tmp_path) == 5
