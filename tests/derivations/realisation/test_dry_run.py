"""Saying what would be done, without doing it."""

from pathlib import Path
from typing import Any

import pytest

from dis_derivations.realisation.dry_run import DryRun
from dis_derivations.realisation.manifest_target import plan_target
from dis_derivations.realisation.target import TargetRequest
from dis_store import Store
from dis_store.errors import InvalidInputError
from tiny_runs import realise


def plan(store: Store, config: Path, *overrides: str, **options: Any) -> DryRun:
    """Plan, and check that nothing of the store's content changed."""
    before = contents(store)
    planned = plan_target(store, TargetRequest(config, overrides=overrides, **options))
    assert contents(store) == before
    return planned


def contents(store: Store) -> set[Path]:
    rooms = ("objects", "manifests", "derivations", "realisations", "roots", "tmp")
    return {path for room in rooms for path in (store.path / room).rglob("*")}


def names(planned: DryRun) -> list[str]:
    return [build.name for build in planned.builds]


def test_without_a_lock_a_plan_says_that_it_is_made_first(store: Store, config: Path) -> None:
    assert plan(store, config) == DryRun("run", locks=True, builds=())
    assert not config.with_name("tiny.lock.json").exists()


def test_a_stale_lock_would_be_renewed(store: Store, config: Path) -> None:
    realise(store, config, target="weights")
    others = config.parent / "others.txt"
    others.write_text("bead\n", "utf-8")
    assert plan(store, config, f"inference.dataset.source={others}").locks
    with pytest.raises(InvalidInputError, match="--locked: the lock is stale"):
        plan(store, config, f"inference.dataset.source={others}", locked=True)


def test_locked_refuses_a_missing_lock_in_a_plan_too(store: Store, config: Path) -> None:
    with pytest.raises(InvalidInputError, match="--locked: there is no lock yet"):
        plan(store, config, locked=True)


def test_a_plan_lists_the_missing_builds_inputs_first(store: Store, config: Path) -> None:
    realise(store, config, target="requests")
    planned = plan(store, config)
    assert not planned.locks
    assert names(planned) == ["tiny-closure", "tiny-generation", "tiny"]
    assert [build.fetched_bytes for build in planned.builds] == [0, 0, 0]
    assert names(plan(store, config, target="closure")) == ["tiny-closure"]


def test_a_plan_is_what_is_then_built(store: Store, config: Path) -> None:
    from dis_derivations.realisation.events import Event
    from dis_derivations.realisation.manifest_target import realise_target

    realise(store, config, target="weights")
    planned = plan(store, config)
    events: list[Event] = []
    realise_target(store, TargetRequest(config), events.append)
    assert [event.subject for event in events if event.kind == "done"] == names(planned)


def test_nothing_is_planned_for_what_is_known(store: Store, config: Path) -> None:
    realise(store, config)
    assert plan(store, config) == DryRun("run", locks=False, builds=())
    assert names(plan(store, config, "metadata.description=another")) == ["tiny"]
    assert plan(store, config, target="weights").builds == ()


def test_what_must_be_fetched_again_is_planned_with_its_size(
    store: Store, config: Path, tmp_path: Path
) -> None:
    realise(store, config, target="weights")
    with Store.open(tmp_path / "other") as other:
        (build,) = plan(other, config, target="weights").builds
        assert (build.name, build.builder) == ("tiny-weights", "files")
        assert build.fetched_bytes == (config.parent / "model" / "model.safetensors").stat().st_size
        assert set(names(plan(other, config))) >= {"tiny-weights", "tiny-dataset", "tiny"}


def test_a_rebuild_is_planned_although_the_result_is_known(store: Store, config: Path) -> None:
    realise(store, config)
    assert names(plan(store, config, rebuilds=2)) == ["tiny-generation"] * 2
    assert names(plan(store, config, rebuilds=1, target="weights")) == ["tiny-weights"]


def test_an_unknown_target_and_a_bad_name_are_refused_in_a_plan(store: Store, config: Path) -> None:
    with pytest.raises(InvalidInputError, match="no manifest has a target 'runn'") as refused:
        plan(store, config, target="runn")
    assert refused.value.hint == "did you mean run?"
    with pytest.raises(InvalidInputError, match="the root name"):
        plan(store, config, root="a/b")
