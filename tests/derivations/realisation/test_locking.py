"""Realising locks a manifest first where that is needed, and only then."""

import json
from pathlib import Path
from typing import Any

import pytest

from dis_store import Store
from dis_store.errors import InterruptedBuildError, InvalidInputError
from tiny_runs import lock_of, realise, told


def locked(config: Path, name: str) -> list[Any]:
    document = json.loads(lock_of(config).read_bytes())
    return [entry for entry in document["artifacts"] if entry["name"] == name]


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
    from dis_store.writing.tree_writer import TreeWriter

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
