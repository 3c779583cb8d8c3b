"""Building again what is known: reproductions, and results that differ."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.comparison.diff import diff_bundles
from dis_derivations.engines.protocol import GeneratedSequence
from dis_derivations.engines.reference.engine import ReferenceEngine
from dis_derivations.realisation.events import Event
from dis_derivations.realisation.manifest_target import realise_target
from dis_derivations.realisation.reproductions import reproductions_of
from dis_derivations.realisation.target import RealisedTarget, TargetRequest
from dis_derivations.runs.bundle_reader import StoredBundle
from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import BuildError, IntegrityError
from tiny_runs import realise

Generated = Callable[..., list[GeneratedSequence]]


def built(store: Store, config: Path, **options: Any) -> list[str]:
    """Realise, and return the names of what was built, in order."""
    events: list[Event] = []
    realise_target(store, TargetRequest(config, **options), events.append)
    return [event.subject for event in events if event.kind == "done"]


def counts(store: Store, realised: RealisedTarget) -> tuple[int, int]:
    """Return how many builds of what was rebuilt are identical, and how many there are."""
    found = reproductions_of(store, realised)
    return found.identical, found.builds


@pytest.fixture
def unsteady(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes the engine's n-th answers differ, in the last token of the first request."""

    def make(*differing: int) -> None:
        generate, calls = ReferenceEngine.generate, count(1)

        def generate_unsteadily(
            self: ReferenceEngine, *arguments: Any
        ) -> Sequence[GeneratedSequence]:
            first, *others = generate(self, *arguments)
            if next(calls) in differing:
                *tokens, last = first.output_token_ids
                first = replace(first, output_token_ids=(*tokens, (last + 1) % 256))
            return [first, *others]

        monkeypatch.setattr(ReferenceEngine, "generate", generate_unsteadily)

    return make


def test_a_run_that_was_never_built_is_built_twice(store: Store, config: Path) -> None:
    names = built(store, config, rebuilds=1)
    assert names.count("tiny-generation") == 2
    assert names.count("tiny") == 1
    assert names.count("tiny-requests") == names.count("tiny-closure") == 1


def test_a_rebuild_builds_the_generation_again_and_never_its_inputs(
    store: Store, config: Path
) -> None:
    realise(store, config)
    assert built(store, config, rebuilds=2) == ["tiny-generation"] * 2


def test_an_identical_rebuild_is_a_reproduction(store: Store, config: Path) -> None:
    first = realise(store, config)
    again = realise(store, config, rebuilds=2)
    assert again.reproduced
    assert again.outputs == first.outputs
    assert again.roots == first.roots
    assert [rebuild.identical for rebuild in again.rebuilds] == [True, True]
    assert {rebuild.subject for rebuild in again.rebuilds} == {"tiny-generation"}
    assert counts(store, again) == (3, 3)


def test_builds_are_counted_over_calls(store: Store, config: Path) -> None:
    assert counts(store, realise(store, config, rebuilds=1)) == (2, 2)
    assert counts(store, realise(store, config, rebuilds=1)) == (3, 3)
    # Another description makes another run of the same generation.
    described = realise(store, config, "metadata.description=another", rebuilds=1)
    assert counts(store, described) == (4, 4)


@pytest.mark.parametrize("target", ["requests", "closure", "weights", "dataset", "generation"])
def test_every_kind_of_target_can_be_built_again(store: Store, config: Path, target: str) -> None:
    first = realise(store, config, target=target)
    again = realise(store, config, target=target, rebuilds=1)
    assert again.reproduced
    assert again.outputs == first.outputs
    assert again.rebuilds[0].subject == f"tiny-{target}"
    assert counts(store, again) == (2, 2)


def test_each_build_is_recorded_with_its_log(store: Store, config: Path) -> None:
    again = realise(store, config, target="generation", rebuilds=1)
    records = store.realisations(again.key)
    assert len({record.build for record in records}) == 2
    assert [record.outputs["log"] for record in records] == [
        again.outputs["log"],
        again.rebuilds[0].outputs["log"],
    ]


def test_weights_that_changed_on_disk_do_not_reproduce(store: Store, config: Path) -> None:
    realise(store, config, target="weights", root="kept")
    file = config.parent / "model" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    with pytest.raises(IntegrityError, match="is not the file that was locked"):
        realise(store, config, target="weights", rebuilds=1)
    assert realise(store, config, target="weights").cached


def test_a_differing_rebuild_is_told_with_the_run_of_its_results(
    store: Store, config: Path, unsteady: Callable[..., None]
) -> None:
    unsteady(2)
    realised = realise(store, config, rebuilds=1)
    (rebuild,) = realised.rebuilds
    assert not realised.reproduced
    assert rebuild.differing == ("results",)
    assert rebuild.bundle is not None
    assert rebuild.bundle != realised.outputs["bundle"]
    assert counts(store, realised) == (1, 2)
    assert realise(store, config).outputs == realised.outputs


def test_a_differing_bundle_can_be_compared_with_the_chosen_one(
    store: Store, config: Path, unsteady: Callable[..., None]
) -> None:
    unsteady(2)
    realised = realise(store, config, rebuilds=1)
    bundle = realised.rebuilds[0].bundle
    assert bundle is not None
    chosen, other = (StoredBundle(store, each) for each in (realised.outputs["bundle"], bundle))
    report = diff_bundles(chosen, other, store=store)
    assert not report.same
    assert report.divergence is not None
    assert report.divergence.request == "request-00000"
    assert report.causes == ()


def test_of_several_rebuilds_only_those_that_differ_count_as_differing(
    store: Store, config: Path, unsteady: Callable[..., None]
) -> None:
    unsteady(3)
    realised = realise(store, config, rebuilds=3)
    assert [rebuild.identical for rebuild in realised.rebuilds] == [True, False, True]
    assert [rebuild.bundle is None for rebuild in realised.rebuilds] == [True, False, True]
    assert counts(store, realised) == (3, 4)


def test_a_generation_that_differs_is_told_without_a_bundle(
    store: Store, config: Path, unsteady: Callable[..., None]
) -> None:
    unsteady(2)
    (rebuild,) = realise(store, config, target="generation", rebuilds=1).rebuilds
    assert (rebuild.differing, rebuild.bundle) == (("results",), None)


def collected(path: Path, *roots: str) -> Callable[[Digest], bool]:
    """Collect garbage without some roots; return a function that tells whether an object is still there."""
    with Store.open(path) as store:
        for name in roots:
            store.remove_root(name)
        store.collect_garbage()
        return frozenset(store.objects()).__contains__


def test_a_diverging_run_is_kept_as_long_as_its_manifest_asks(
    store: Store, config: Path, unsteady: Callable[..., None]
) -> None:
    unsteady(2)
    policy = 'outputs.bundle_policy={"retention_days":30,"include":["tokens"]}'
    assert not realise(store, config, policy, rebuilds=1).reproduced
    roots = store.roots()
    assert len(roots) == 2
    assert store.kept_roots().keys() == roots.keys()
    assert {root.include for root in roots.values()} == {("tokens",)}


def test_diverging_results_stay_as_evidence_while_a_root_of_either_run_lives(
    store: Store, config: Path, unsteady: Callable[..., None]
) -> None:
    unsteady(2)
    realised = realise(store, config, rebuilds=1)
    (rebuild,) = realised.rebuilds
    assert rebuild.bundle is not None
    evidence: Mapping[str, Digest] = rebuild.outputs
    chosen, diverging = realised.roots[0], f"tiny.{rebuild.bundle[:8]}"
    assert set(store.roots()) == {chosen, diverging}
    store.close()

    there = collected(store.path)
    assert all(map(there, [*evidence.values(), rebuild.bundle, *realised.outputs.values()]))
    there = collected(store.path, diverging)
    assert all(map(there, [*evidence.values(), *realised.outputs.values()]))
    there = collected(store.path, chosen)
    assert not any(map(there, evidence.values()))


def test_a_rebuild_that_fails_leaves_the_first_run_rooted(
    store: Store, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate, calls = ReferenceEngine.generate, count(1)

    def fail_the_second_time(self: ReferenceEngine, *arguments: Any) -> Any:
        if next(calls) == 2:
            raise BuildError("the machine failed")
        return generate(self, *arguments)

    monkeypatch.setattr(ReferenceEngine, "generate", fail_the_second_time)
    with pytest.raises(BuildError, match="the machine failed"):
        realise(store, config, rebuilds=1)
    (root,) = store.roots().values()
    store.close()
    assert collected(store.path)(root.object)
    assert list((store.path / "tmp").iterdir()) == []
