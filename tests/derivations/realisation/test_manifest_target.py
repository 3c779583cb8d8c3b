"""Realising a target of a manifest: locking, recalling the plan, rooting."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.realisation import plan_cache, schedule
from dis_derivations.realisation.events import Event
from dis_derivations.realisation.manifest_target import realise_target
from dis_derivations.realisation.target import RealisedTarget, TargetRequest
from dis_derivations.version import VERSION
from dis_store import Root, Store
from dis_store.digest import Digest
from dis_store.errors import IntegrityError, InterruptedBuildError, InvalidInputError
from tiny_runs import realise, write_manifest

HEAVY = ("pydantic", "numpy", "tokenizers", "jinja2", "rfc8785")
TARGETS = ("run", "generation", "requests", "closure", "weights", "tokenizer", "config", "dataset")


def told(store: Store, config: Path, *overrides: str, **options: Any) -> list[str]:
    """Realise, and return the notes."""
    events: list[Event] = []
    realise_target(store, TargetRequest(config, overrides=overrides, **options), events.append)
    return [event.text for event in events if event.kind == "note"]


def lock_of(config: Path) -> Path:
    return config.with_name("tiny.lock.json")


def locked(config: Path, name: str) -> list[Any]:
    document = json.loads(lock_of(config).read_bytes())
    return [entry for entry in document["artifacts"] if entry["name"] == name]


def collect_after_closing(store: Store, *roots: str) -> None:
    """Collect garbage as another process would, the store that protects what it touched being closed."""
    store.close()
    with Store.open(store.path) as other:
        for name in roots:
            other.remove_root(name)
        other.collect_garbage()


# Locking


def test_a_missing_lock_is_made_and_said(store: Store, config: Path) -> None:
    notes = told(store, config)
    files = json.loads(lock_of(config).read_bytes())["artifacts"]
    assert notes == [f"there is no lock yet: locked {len(files)} files in {lock_of(config)}"]
    assert told(store, config, "metadata.description=another") == []


def test_a_realisation_locks_as_the_lock_command_does(store: Store, config: Path) -> None:
    from dis_derivations.lock.document import Lock
    from dis_derivations.lock.resolution import resolve_lock
    from dis_derivations.manifest.loading import load_manifest

    realise(store, config, target="weights")
    found = Lock.decode(lock_of(config).read_bytes(), name="the lock")
    assert found.lock_id == resolve_lock(load_manifest(config), store, previous=None).lock_id


def test_locked_refuses_a_missing_lock_before_anything_is_read(store: Store, config: Path) -> None:
    with pytest.raises(InvalidInputError, match="with --locked: there is no lock yet") as caught:
        realise(store, config, locked=True)
    assert caught.value.hint == f"dis lock {config}"
    assert not lock_of(config).exists()
    assert store.objects() == []


def test_locked_refuses_a_stale_lock_and_names_what_is_stale(store: Store, config: Path) -> None:
    realise(store, config, target="weights")
    before = lock_of(config).read_bytes()
    (config.parent / "others.txt").write_text("bead\n", "utf-8")
    with pytest.raises(InvalidInputError, match=r"the lock is stale for inference\.prompt_dataset"):
        realise(store, config, "inference.dataset.source=others.txt", locked=True)
    assert lock_of(config).read_bytes() == before


def test_locked_accepts_a_lock_that_fits(store: Store, config: Path) -> None:
    first = realise(store, config)
    assert realise(store, config, locked=True).outputs == first.outputs
    described = realise(store, config, "metadata.description=another", locked=True)
    assert described.outputs != first.outputs


def test_a_stale_artifact_is_locked_again_alone(
    store: Store, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    realise(store, config, target="weights")
    weights, prompts = (
        locked(config, name) for name in ("model.weight", "inference.prompt_dataset")
    )
    weight_file = config.parent / "model" / "model.safetensors"
    weight_file.write_bytes(weight_file.read_bytes()[:-1] + b"\x01")
    (config.parent / "others.txt").write_text("bead\n", "utf-8")
    monkeypatch.chdir(config.parent)
    changed = ("inference.dataset.source=others.txt", "inference.n_prompts=1")
    notes = told(store, config, *changed)
    assert [note.partition(":")[0] for note in notes] == [
        "the lock is stale for inference.prompt_dataset"
    ]
    assert locked(config, "model.weight") == weights
    assert locked(config, "inference.prompt_dataset") != prompts


def embed_lock(config: Path) -> None:
    """Move the lock into the manifest."""
    document = json.loads(config.read_bytes())
    document["artifacts"]["lockfile"] = json.loads(lock_of(config).read_bytes())
    config.write_text(json.dumps(document), "utf-8")
    lock_of(config).unlink()


def test_a_lock_inside_the_manifest_is_used_as_it_is(store: Store, config: Path) -> None:
    first = realise(store, config)
    embed_lock(config)
    embedded = realise(store, config, locked=True)
    assert embedded.outputs["bundle"] == first.outputs["bundle"]
    assert realise(store, config, locked=True).cached
    assert not lock_of(config).exists()


def test_a_stale_lock_inside_the_manifest_is_refused_before_anything_is_read(
    store: Store, config: Path, tmp_path: Path
) -> None:
    realise(store, config, target="weights")
    embed_lock(config)
    with (
        Store.open(tmp_path / "empty") as empty,
        pytest.raises(InvalidInputError, match="the lock inside the manifest cannot be replaced"),
    ):
        realise(empty, config, "inference.dataset.source=others.txt")
    with Store.open(tmp_path / "empty") as empty:
        assert empty.objects() == []


def test_an_interruption_while_locking_leaves_no_lock_and_nothing_half_made(
    store: Store, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dis_store.tree_writer import TreeWriter

    ingest, taken = TreeWriter.ingest, 0

    def interrupted(self: TreeWriter, *arguments: Any, **options: Any) -> Any:
        nonlocal taken
        taken += 1
        if taken == 3:
            raise KeyboardInterrupt
        return ingest(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(TreeWriter, "ingest", interrupted)
        with pytest.raises(InterruptedBuildError) as caught:
            realise(store, config)
    assert caught.value.hint == "run the same command again: it goes on from what is finished"
    assert not lock_of(config).exists()
    assert list((store.path / "tmp").iterdir()) == []
    assert store.roots() == {}
    assert realise(store, config).roots


# The plan cache


@pytest.fixture
def recalled(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that gets an entry for each look into the plan cache: whether it knew the answer."""
    answers: list[bool] = []
    recall = plan_cache.recall

    def watched(store: Store, key: Digest) -> RealisedTarget | None:
        known = recall(store, key)
        answers.append(known is not None)
        return known

    monkeypatch.setattr(plan_cache, "recall", watched)
    return answers


def test_the_second_call_does_nothing(store: Store, config: Path, recalled: list[bool]) -> None:
    first = realise(store, config)
    events: list[Event] = []
    second = realise_target(store, TargetRequest(config), events.append)
    assert events == []
    # The first call had no lock and so no plan to look for.
    assert recalled == [True]
    assert (first.cached, second.cached) == (False, True)
    assert (second.outputs, second.roots) == (first.outputs, first.roots)


def test_the_second_call_imports_nothing_heavy(store: Store, config: Path) -> None:
    expected = realise(store, config)
    script = (
        "import sys; from pathlib import Path; from dis_store import Store\n"
        "from dis_derivations.realisation.manifest_target import realise_target\n"
        "from dis_derivations.realisation.target import TargetRequest\n"
        "with Store.open(Path(sys.argv[1])) as store:\n"
        "    found = realise_target(store, TargetRequest(Path(sys.argv[2])))\n"
        "print(found.outputs['bundle'], *sys.modules)\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", script, store.path, config],
        env={"PYTHONPATH": ":".join(sys.path)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    bundle, *modules = child.stdout.split()
    assert bundle == expected.outputs["bundle"]
    assert set(HEAVY) & set(modules) == set()


def append_newline(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def test_another_byte_of_manifest_base_or_lock_is_another_plan(
    store: Store, tmp_path: Path, recalled: list[bool]
) -> None:
    base = write_manifest(tmp_path / "based")
    config = base.with_name("derived.json")
    config.write_text('{"x_base_manifest": "tiny.json"}', "utf-8")
    files = (config, base, config.with_name("derived.lock.json"))
    first = realise(store, config, target="requests")
    for file in files:
        append_newline(file)
        assert realise(store, config, target="requests").outputs == first.outputs
    realise(store, config, target="requests")
    assert recalled == [False, False, False, True]


def test_another_override_or_target_is_another_plan(
    store: Store, config: Path, recalled: list[bool]
) -> None:
    realise(store, config, target="requests")
    realise(store, config, "inference.n_prompts=2", target="requests")
    realise(store, config, target="closure")
    assert recalled == [False, False]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("library_versions", lambda: {"jinja2": "0", "tokenizers": "0"}),
        ("VERSION", "0.0.0"),
        ("PLAN_VERSION", 0),
    ],
)
def test_another_version_of_dis_or_of_a_library_is_another_plan(
    store: Store,
    config: Path,
    recalled: list[bool],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: Any,
) -> None:
    realise(store, config, target="requests")
    monkeypatch.setattr(plan_cache, name, value)
    realise(store, config, target="requests")
    assert recalled == [False]


def test_the_version_in_a_plan_is_that_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["version"] == VERSION


def test_an_output_that_was_collected_is_no_longer_planned(
    store: Store, config: Path, recalled: list[bool]
) -> None:
    first = realise(store, config)
    collect_after_closing(store, *first.roots)
    with Store.open(store.path) as after:
        assert not after.is_valid(first.outputs["bundle"])
        again = realise(after, config)
        assert again.outputs["bundle"] == first.outputs["bundle"]
    assert recalled == [False]
    assert not again.cached


def test_a_plan_whose_derivation_was_collected_is_compiled_again(
    store: Store, config: Path, recalled: list[bool]
) -> None:
    realise(store, config, target="requests", root="first")
    renamed = realise(store, config, "metadata.name=other", target="requests")
    collect_after_closing(store)
    with Store.open(store.path) as after:
        assert after.is_valid(renamed.outputs["out"])
        with pytest.raises(IntegrityError):
            after.derivation(renamed.derivation)
        again = realise(after, config, "metadata.name=other", target="requests", root="second")
        assert again.derivation == renamed.derivation
        assert after.derivation(renamed.derivation)
    assert recalled == [False, False]


def test_a_lock_that_changes_during_a_build_is_not_taken_for_the_one_that_was_used(
    store: Store, config: Path, recalled: list[bool]
) -> None:
    def change_the_lock(event: Event) -> None:
        if event.kind == "start" and event.subject == "tiny-requests":
            append_newline(lock_of(config))

    realise_target(store, TargetRequest(config, target="requests"), change_the_lock)
    realise(store, config, target="requests")
    assert recalled == [False]


def test_a_target_whose_input_was_built_is_not_called_cached(store: Store, config: Path) -> None:
    first = realise(store, config)
    assert not first.cached
    for record in (store.path / "realisations").rglob("*.json"):
        if json.loads(record.read_bytes())["builder"] == "requests":
            record.unlink()
    store.close()
    with Store.open(store.path) as after:
        after.reindex()
        # The requests are built again and come out the same, so the run is known once they are.
        again = realise(after, config)
        assert again.outputs == first.outputs
        assert not again.cached
        assert realise(after, config).cached


# Roots


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


# Targets


def test_a_base_of_any_name_is_kept_in_the_log(store: Store, tmp_path: Path) -> None:
    config = write_manifest(tmp_path / "based")
    base = config.with_name("ü" * 100 + " con.")
    config.rename(base)
    config.write_text(json.dumps({"x_base_manifest": base.name}), "utf-8")
    log = realise(store, config).outputs["log"]
    (kept,) = (file.path for file in store.files(log) if file.path.startswith("bases/"))
    assert store.read_bytes(log, kept) == base.read_bytes()


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_can_be_realised_alone_and_is_recalled(
    store: Store, config: Path, target: str
) -> None:
    realised = realise(store, config, target=target)
    outputs = {"run": {"bundle", "log"}, "generation": {"results", "log"}}
    logged = {"out", "log"} if target in ("requests", "closure") else {"out"}
    assert set(realised.outputs) == outputs.get(target, logged)
    assert all(store.is_valid(digest) for digest in realised.outputs.values())
    assert realised.main_output != realised.outputs.get("log")
    assert (realised.target, realised.name) == (target, "tiny")
    again = realise(store, config, target=target)
    assert again.cached
    assert again.outputs == realised.outputs


def test_a_target_builds_only_what_it_needs(store: Store, config: Path) -> None:
    events: list[Event] = []
    realise_target(store, TargetRequest(config, target="requests"), events.append)
    assert [event.subject for event in events if event.kind == "start"] == ["tiny-requests"]


def test_a_target_that_this_manifest_does_not_have_is_refused(store: Store, config: Path) -> None:
    with pytest.raises(InvalidInputError, match="no target 'chat_template'") as caught:
        realise(store, config, target="chat_template")
    assert "dataset" in str(caught.value.cause)
