"""A generation in shards: the bits of an undivided one, whatever the division, and nothing made twice."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dis_derivations.builders import kept_shards, recorded_generation, sharded_generation
from dis_derivations.graph import sharding
from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.sharding import SHARD_MEMBER
from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import BuildError
from tiny_runs import realise, write_manifest

PROMPTS = tuple(f"{letters} {number}" for number in range(4) for letters in ("abba", "cab", "dead"))
LOGITS = 'capture.logits={"enabled":true,"capture_decode":true,"capture_prefill":true}'
TRACE = 'capture.engine_trace={"enabled":true}'
ALONE = "inference.batching.max_num_seqs=1"
SAMPLED = (
    "inference.request_template.sampling.temperature=2",
    "inference.request_template.sampling.seed=5",
)


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the manifest of a run of twelve requests."""
    return write_manifest(tmp_path_factory.mktemp("long") / "tiny", prompts=PROMPTS)


@pytest.fixture
def in_shards_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def set_size(size: int) -> None:
        monkeypatch.setattr(sharding, "SHARD_REQUESTS", size)

    return set_size


def generation(store: Store, config: Path, *overrides: str, **options: Any) -> Any:
    """Generate, one request at a time unless said otherwise."""
    return realise(store, config, ALONE, *overrides, target="generation", **options)


def log_of(store: Store, realised: Any, name: str = "run_log.json") -> Any:
    return json.loads(store.read_bytes(realised.outputs["log"], name))


def test_a_run_that_fits_in_a_shard_has_none(store: Store, long_run: Path) -> None:
    realised = generation(store, long_run)
    paths = [file.path for file in store.files(realised.outputs["log"])]
    assert not [path for path in paths if path.startswith("shards/")]


@pytest.fixture(scope="module")
def undivided(
    long_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[tuple[str, ...]], Digest]:
    """Return what gives the results of a run in one piece, made once for each way to run it."""
    known: dict[tuple[str, ...], Digest] = {}

    def results(overrides: tuple[str, ...]) -> Digest:
        if overrides not in known:
            with (
                pytest.MonkeyPatch.context() as patch,
                Store.open(tmp_path_factory.mktemp("undivided") / "store") as store,
            ):
                patch.setattr(sharding, "SHARD_REQUESTS", len(PROMPTS))
                known[overrides] = generation(store, long_run, *overrides).outputs["results"]
        return known[overrides]

    return results


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    size=st.integers(1, len(PROMPTS) - 1),
    seqs=st.integers(1, 3),
    overrides=st.sampled_from([(LOGITS,), (LOGITS, *SAMPLED)]),
)
def test_no_division_changes_a_bit_of_the_results(
    size: int,
    seqs: int,
    overrides: tuple[str, ...],
    long_run: Path,
    undivided: Callable[[tuple[str, ...]], Digest],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        Store.open(tmp_path_factory.mktemp("divided") / "store") as store,
    ):
        patch.setattr(sharding, "SHARD_REQUESTS", size)
        batching = f"inference.batching.max_num_seqs={seqs}"
        divided = generation(store, long_run, *overrides, batching).outputs["results"]
    assert divided == undivided(overrides)


def test_a_trace_of_fixed_batches_does_not_show_the_division(
    store: Store, long_run: Path, in_shards_of: Callable[[int], None], undivided: Any
) -> None:
    whole = undivided((TRACE,))
    in_shards_of(5)
    assert generation(store, long_run, TRACE).outputs["results"] == whole


def test_a_trace_that_may_show_the_division_has_it_in_its_derivation(
    store: Store, long_run: Path, in_shards_of: Callable[[int], None]
) -> None:
    in_shards_of(4)
    realised = generation(store, long_run, TRACE, "inference.batching.max_num_seqs=2")
    record = Derivation.decode(store.derivation(realised.derivation))
    assert record.args[SHARD_MEMBER] == 4
    steps = [
        json.loads(line)
        for line in store.read_bytes(realised.outputs["results"], "engine_trace.jsonl").splitlines()
    ]
    assert [step["step"] for step in steps] == list(range(len(steps)))
    assert log_of(store, realised)["batch_trace"]["steps"] == steps


def test_a_trace_of_a_run_that_fits_in_a_shard_leaves_its_derivation_alone(
    store: Store, long_run: Path
) -> None:
    realised = generation(store, long_run, TRACE)
    assert SHARD_MEMBER not in Derivation.decode(store.derivation(realised.derivation)).args


def test_the_log_of_a_divided_generation_says_what_that_of_an_undivided_one_does(
    store: Store, long_run: Path, in_shards_of: Callable[[int], None], tmp_path: Path
) -> None:
    with Store.open(tmp_path / "other") as other:
        whole = log_of(other, generation(other, long_run))
    in_shards_of(5)
    realised = generation(store, long_run)
    divided = log_of(store, realised)
    for document in (whole, divided):
        assert set(document.pop("timings")) == {"load_seconds", "generate_seconds"}
    assert divided == whole
    paths = {file.path for file in store.files(realised.outputs["log"])}
    assert {f"shards/0000{number}/run_log.json" for number in range(3)} <= paths


def test_each_shard_is_a_derivation_that_the_store_remembers(
    store: Store, long_run: Path, in_shards_of: Callable[[int], None]
) -> None:
    in_shards_of(5)
    realised = generation(store, long_run)
    (shard,) = [
        build
        for reference in store.references(realised.outputs["log"])
        for build in store.builds_of(reference)
        if build.derivation and b"generation-00002" in store.derivation(build.derivation)
    ]
    assert shard.derivation is not None
    record = Derivation.decode(store.derivation(shard.derivation))
    taken = Derivation.decode(store.derivation(record.inputs["requests"].derivation))
    assert (record.builder, taken.builder) == ("generation", "requests_slice")
    assert dict(taken.args) == {"first": 10, "count": 2}
    requests = json.loads(store.read_bytes(shard.inputs["requests"].object, "requests.json"))
    assert [each["id"] for each in requests["requests"]] == ["request-00010", "request-00011"]


def stop_after(monkeypatch: pytest.MonkeyPatch, generations: int) -> list[int]:
    """Let generations fail after so many; return the list that the sizes of those made go into."""
    honest = recorded_generation.generate
    made: list[int] = []

    def generate(context: Any, source: Any, requests: Any, course: Any) -> Digest:
        if len(made) == generations:
            raise BuildError("the power went out")
        made.append(len(requests))
        return honest(context, source, requests, course)

    monkeypatch.setattr(sharded_generation, "generate", generate)
    return made


def test_after_a_failure_only_the_missing_shards_are_made(
    store: Store,
    long_run: Path,
    in_shards_of: Callable[[int], None],
    undivided: Callable[[tuple[str, ...]], Digest],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_shards_of(5)
    stop_after(monkeypatch, 2)
    with pytest.raises(BuildError, match="the power went out"):
        generation(store, long_run, LOGITS)
    monkeypatch.undo()
    in_shards_of(5)
    made = stop_after(monkeypatch, 9)
    assert generation(store, long_run, LOGITS).outputs["results"] == undivided((LOGITS,))
    assert made == [2]


@pytest.mark.parametrize("block", [1, 64])
def test_what_is_finished_of_a_run_outlives_a_collection(
    store: Store,
    long_run: Path,
    in_shards_of: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    block: int,
) -> None:
    in_shards_of(5)
    stop_after(monkeypatch, 2)
    monkeypatch.setattr(kept_shards, "_BLOCK", block)
    with pytest.raises(BuildError, match="the power went out"):
        generation(store, long_run)
    (name,) = store.roots()
    assert name.startswith("tiny-generation-unfinished.")
    path = store.path
    store.close()
    monkeypatch.undo()
    in_shards_of(5)
    made = stop_after(monkeypatch, 9)
    with Store.open(path) as again:
        again.collect_garbage()
        realised = generation(again, long_run)
        assert made == [2]
        assert not again.roots()
        assert len(again.realisations(realised.key)) == 1


def test_a_longer_run_begins_with_the_shards_of_a_shorter_one(
    store: Store,
    long_run: Path,
    in_shards_of: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_shards_of(5)
    generation(store, long_run, "inference.n_prompts=5")
    made = stop_after(monkeypatch, 9)
    generation(store, long_run)
    assert made == [5, 2]


def test_a_rebuild_makes_every_shard_again(
    store: Store,
    long_run: Path,
    in_shards_of: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_shards_of(5)
    made = stop_after(monkeypatch, 9)
    realised = generation(store, long_run, rebuilds=1)
    assert made == [5, 5, 2, 5, 5, 2]
    assert [rebuild.identical for rebuild in realised.rebuilds] == [True]
    assert len(store.realisations(realised.key)) == 2


def test_shards_whose_engine_speaks_otherwise_of_itself_are_made_again(
    store: Store,
    long_run: Path,
    in_shards_of: Callable[[int], None],
    undivided: Callable[[tuple[str, ...]], Digest],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dis_derivations.engines.reference.engine import ReferenceEngine

    in_shards_of(5)
    honest = ReferenceEngine.identity
    monkeypatch.setattr(ReferenceEngine, "identity", lambda self: {**honest(self), "older": True})
    generation(store, long_run, "inference.n_prompts=5")
    monkeypatch.setattr(ReferenceEngine, "identity", honest)
    made = stop_after(monkeypatch, 9)
    assert generation(store, long_run).outputs["results"] == undivided(())
    assert made == [5, 2, 5]
    numbers = iter(range(99))
    monkeypatch.setattr(
        ReferenceEngine, "identity", lambda self: {**honest(self), "now": next(numbers)}
    )
    with pytest.raises(BuildError, match="not made by one engine"):
        generation(store, long_run, LOGITS)
