"""What keeps a result: the automatic root of a run, names, and result links."""

import json
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.realisation import schedule
from dis_derivations.realisation.events import Event
from dis_derivations.realisation.manifest_target import realise_target
from dis_derivations.realisation.target import TargetRequest
from dis_store import Root, Store
from dis_store.errors import InterruptedBuildError, InvalidInputError
from tiny_runs import realise, told


def test_a_run_is_rooted_under_its_name_and_the_digits_of_its_bundle(
    store: Store, config: Path
) -> None:
    realised = realise(store, config)
    name = f"tiny.{realised.outputs['bundle'][:8]}"
    assert realised.roots == (name,)
    root = store.root(name)
    assert root is not None
    assert (root.object, root.key, root.derivation, root.automatic, root.label) == (
        realised.outputs["bundle"],
        realised.key,
        realised.derivation,
        True,
        "tiny",
    )


def test_a_name_and_a_link_root_a_result_too(store: Store, config: Path, tmp_path: Path) -> None:
    link = tmp_path / "result"
    realised = realise(store, config, root="kept", out_link=link)
    assert realised.roots == (f"tiny.{realised.outputs['bundle'][:8]}", "kept", str(link))
    root = store.root("kept")
    assert root is not None
    assert not root.automatic
    assert link.resolve() == store.object_path(realised.outputs["bundle"])


def test_roots_that_were_removed_are_set_again(
    store: Store, config: Path, tmp_path: Path, recalled: list[bool]
) -> None:
    link = tmp_path / "result"
    first = realise(store, config, root="kept", out_link=link)
    for name in first.roots[:2]:
        store.remove_root(name)
    link.unlink()
    second = realise(store, config, root="kept", out_link=link)
    assert recalled == [True]
    assert second.roots == first.roots
    assert set(store.roots()) == set(first.roots[:2])
    assert link.is_symlink()


def test_a_root_that_is_there_is_left_as_it_is(store: Store, config: Path) -> None:
    (name,) = realise(store, config).roots
    path = store.path / "roots" / f"{name}.json"
    before = path.stat().st_ino
    realise(store, config)
    assert path.stat().st_ino == before


@pytest.mark.parametrize("with_key", [True, False])
def test_a_named_root_is_never_made_automatic(store: Store, config: Path, with_key: bool) -> None:
    realised = realise(store, config)
    (name,) = realised.roots
    key = realised.key if with_key else None
    store.set_root(name, Root(realised.outputs["bundle"], key=key, label="mine"))
    realise(store, config)
    root = store.root(name)
    assert root is not None
    assert (root.automatic, root.key, root.label) == (False, realised.key, "mine")


def test_naming_a_run_as_its_automatic_root_makes_that_one_named(
    store: Store, config: Path
) -> None:
    (name,) = realise(store, config).roots
    realise(store, config, root=name)
    root = store.root(name)
    assert root is not None
    assert not root.automatic


def test_an_automatic_root_does_not_take_the_name_of_what_another_root_keeps(
    store: Store, config: Path
) -> None:
    other = realise(store, config, target="requests").outputs["out"]
    digits = realise(store, config).outputs["bundle"]
    store.set_root(f"tiny.{digits[:8]}", Root(other))
    realised = realise(store, config)
    kept = store.root(f"tiny.{digits[:8]}")
    assert kept is not None
    assert kept.object == other
    assert realised.roots == (f"tiny.{digits[:16]}",)


@pytest.mark.parametrize(
    ("name", "label"), [("con", "run-con"), ("a model: b", "a-model-b"), ("模型", "run")]
)
def test_any_name_of_a_manifest_makes_a_root(
    store: Store, config: Path, name: str, label: str
) -> None:
    realised = realise(store, config, f"metadata.name={json.dumps(name)}")
    assert realised.roots == (f"{label}.{realised.outputs['bundle'][:8]}",)


def test_a_name_that_no_root_may_have_is_refused_before_anything_is_read(
    store: Store, config: Path
) -> None:
    with pytest.raises(InvalidInputError, match=r"the root name '-bad' is refused"):
        realise(store, config, root="-bad")
    assert store.objects() == []


def test_a_result_without_a_root_is_said(store: Store, config: Path, tmp_path: Path) -> None:
    assert told(store, config, target="closure")[-1].startswith(
        "no root keeps the result for its own sake, so `dis gc` may free it"
    )
    assert told(store, config, target="closure", root="kept") == []
    assert told(store, config, target="closure", out_link=tmp_path / "link") == []
    assert told(store, config, target="run") == []


@pytest.mark.parametrize("last", ["generation", "run"])
def test_a_run_that_was_finished_when_the_user_interrupted_is_rooted(
    store: Store, config: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    names = {"generation": "tiny-generation", "run": "tiny"}
    finished = False
    wait = futures.wait

    def watch(event: Event) -> None:
        nonlocal finished
        finished = finished or (event.kind, event.subject) == ("done", names[last])

    def interruptible(*arguments: Any, **options: Any) -> Any:
        found = wait(*arguments, **options)
        if finished:
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patch:
        patch.setattr(schedule, "wait", interrupt_once(interruptible))
        with pytest.raises(InterruptedBuildError):
            realise_target(store, TargetRequest(config), watch)
    (name,) = store.roots()
    realised = realise(store, config)
    assert realised.roots == (name,)


def interrupt_once(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return `call`, which after it was interrupted once does its work."""
    wait, interrupted = futures.wait, False

    def once(*arguments: Any, **options: Any) -> Any:
        nonlocal interrupted
        if interrupted:
            return wait(*arguments, **options)
        try:
            return call(*arguments, **options)
        except KeyboardInterrupt:
            interrupted = True
            raise

    return once
