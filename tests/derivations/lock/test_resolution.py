"""Locking against a real store: what is read, what is kept, what is recorded."""

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.graph.keys import fixed_output_key
from dis_derivations.lock.document import Lock
from dis_derivations.lock.refusals import LockRefusedError
from dis_derivations.lock.resolution import resolve_lock
from dis_derivations.lock.staleness import stale_artifacts
from dis_derivations.manifest.loading import LoadedManifest, load_manifest
from dis_derivations.sources.manifest_sources import ManifestSources
from dis_store import Store
from dis_store.digest import Digest, Sha256
from dis_store.errors import (
    BuildError,
    IntegrityError,
    InterruptedBuildError,
    InvalidInputError,
    UnfitEnvironmentError,
)
from manifest_documents import smallest_manifest, write_json
from model_directories import MODEL_FILES, safetensors_bytes, write_model

NAMES = ["model.weight", "model.tokenizer", "model.config", "model.chat_template"]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.open(tmp_path / "store") as opened:
        yield opened


def load(path: Path, *overrides: str, **members: Any) -> LoadedManifest:
    return load_manifest(
        write_json(path / "manifest.json", smallest_manifest(**members)), overrides
    )


def key_of(lock: Lock, name: str) -> Digest:
    return fixed_output_key(
        {**file.identity, "sha256": file.digest} for file in lock.files_of(name)
    )


def with_dataset(source: str = "prompts.json", **members: Any) -> dict[str, Any]:
    template = {"kind": "chat", "sampling": {"temperature": 0, "max_tokens": 1}}
    dataset = {"source": source, **members}
    return {"inference": {"n_prompts": 1, "request_template": template, "dataset": dataset}}


def test_a_local_model_is_locked_with_the_digests_of_its_bytes(
    tmp_path: Path, store: Store
) -> None:
    model = write_model(tmp_path / "model")
    (tmp_path / "prompts.json").write_text("[]")
    loaded = load(tmp_path, **with_dataset())
    lock = resolve_lock(loaded, store, previous=None)
    assert {file.path for file in lock.artifacts} == {*MODEL_FILES, "dataset.json"}
    for file in lock.artifacts:
        path = tmp_path / "prompts.json" if file.path == "dataset.json" else model / file.path
        assert file.digest == Sha256.of(path.read_bytes())
        assert file.size == path.stat().st_size
        assert (file.digest_source, file.executable) == ("computed", False)
    assert lock.manifest_id == loaded.manifest_id
    assert lock.sources == {}
    assert stale_artifacts(loaded, lock) == []


def test_locking_ingests_one_object_for_each_artifact_and_records_it(
    tmp_path: Path, store: Store
) -> None:
    model = write_model(tmp_path / "model")
    lock = resolve_lock(load(tmp_path), store, previous=None)
    for name in NAMES:
        record = store.chosen(key_of(lock, name))
        assert record is not None
        assert (record.origin, record.builder, record.compared) == ("ingested", "files", ("out",))
        assert (record.inputs, record.derivation) == ({}, None)
        stored = {file.path: file for file in store.files(record.outputs["out"])}
        assert set(stored) == {file.path for file in lock.files_of(name)}
        for path in stored:
            data = store.read_bytes(record.outputs["out"], path)
            assert data == (model / path).read_bytes()


def test_locking_again_makes_no_second_record(tmp_path: Path, store: Store) -> None:
    write_model(tmp_path / "model")
    loaded = load(tmp_path)
    first = resolve_lock(loaded, store, previous=None)
    second = resolve_lock(loaded, store, previous=None)
    assert first.lock_id == second.lock_id
    assert len(store.realisations(key_of(first, "model.weight"))) == 1


def test_a_cold_and_a_warm_machine_make_the_same_lock_id(tmp_path: Path, store: Store) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for place in (here, there):
        write_model(place / "model")
    os.utime(there / "model/config.json", (1, 1))
    (there / "model/model.safetensors").chmod(0o755)
    warm = resolve_lock(load(here), store, previous=None)
    with Store.open(tmp_path / "other store") as other:
        cold = resolve_lock(load(there), other, previous=None)
        assert cold.lock_id == warm.lock_id
        assert cold.used == warm.used
        key = key_of(cold, "model.weight")
        mine, theirs = store.chosen(key), other.chosen(key)
    assert mine is not None
    assert theirs is not None
    assert mine.outputs == theirs.outputs


def test_where_the_files_lie_changes_no_lock_id(tmp_path: Path, store: Store) -> None:
    write_model(tmp_path / "model")
    write_model(tmp_path / "other")
    (tmp_path / "prompts.json").write_text("[]")
    (tmp_path / "renamed.json").write_text("[]")
    first = resolve_lock(load(tmp_path, **with_dataset()), store, previous=None)
    moved = load(
        tmp_path,
        f"model.weights.source.local_path={tmp_path / 'other'}",
        **with_dataset("renamed.json"),
    )
    second = resolve_lock(moved, store, previous=first)
    assert second.lock_id == first.lock_id
    assert second != first
    assert str(tmp_path) not in str(second.used)


def test_a_lock_that_needs_no_change_is_returned_as_it_is(tmp_path: Path, store: Store) -> None:
    write_model(tmp_path / "model")
    loaded = load(tmp_path)
    first = replace(resolve_lock(loaded, store, previous=None), generated_at="2000-01-01T00:00:00Z")
    assert resolve_lock(loaded, store, previous=first) is first
    assert resolve_lock(loaded, store, previous=first, update=["model.weight"]) is first
    described = load(tmp_path, "metadata.description=new")
    second = resolve_lock(described, store, previous=first)
    assert second.lock_id == first.lock_id
    assert second.manifest_id == described.manifest_id


def test_bytes_that_changed_on_disk_do_not_move_a_lock_unless_it_is_updated(
    tmp_path: Path, store: Store
) -> None:
    model = write_model(tmp_path / "model")
    loaded = load(tmp_path)
    first = resolve_lock(loaded, store, previous=None)
    (model / "config.json").write_text('{"new": 1}')
    (model / "tokenizer.json").write_text('{"new": 1}')
    assert resolve_lock(loaded, store, previous=first) is first
    second = resolve_lock(loaded, store, previous=first, update=["model.config"])
    assert second.files_of("model.config") != first.files_of("model.config")
    assert second.files_of("model.tokenizer") == first.files_of("model.tokenizer")


def test_a_kept_artifact_is_not_read_and_need_not_be_there(tmp_path: Path, store: Store) -> None:
    model = write_model(tmp_path / "model")
    loaded = load(tmp_path)
    first = resolve_lock(loaded, store, previous=None)
    (model / "model.safetensors").unlink()
    second = resolve_lock(loaded, store, previous=first, update=["model.config"])
    assert second is first


def test_only_the_artifact_whose_source_changed_is_resolved_again(
    tmp_path: Path, store: Store
) -> None:
    model = write_model(tmp_path / "model")
    words = write_model(tmp_path / "words")
    (words / "tokenizer.json").write_text('{"other": 1}')
    first = resolve_lock(load(tmp_path), store, previous=None)
    (model / "config.json").write_text('{"changed": 1}')
    changed = load(tmp_path, model__tokenizer__source={"type": "local", "local_path": "words"})
    second = resolve_lock(changed, store, previous=first)
    assert second.files_of("model.config") == first.files_of("model.config")
    assert second.files_of("model.tokenizer") != first.files_of("model.tokenizer")


def test_updating_what_is_no_artifact_is_refused(tmp_path: Path, store: Store) -> None:
    write_model(tmp_path / "model")
    with pytest.raises(InvalidInputError, match=r"no artifact 'model\.wight' to update"):
        resolve_lock(load(tmp_path), store, previous=None, update=["model.wight"])


def test_declared_digests_are_compared_in_any_form(tmp_path: Path, store: Store) -> None:
    model = write_model(tmp_path / "model")
    digest = Sha256.of((model / "config.json").read_bytes())
    for written in (digest, digest.hex, digest.hex.upper()):
        files = [{"path": "config.json", "digest": written}]
        lock = resolve_lock(load(tmp_path, model__config__files=files), store, previous=None)
        assert [file.digest for file in lock.files_of("model.config")] == [digest]


def test_a_file_with_another_digest_is_an_integrity_error_that_names_all_of_them(
    tmp_path: Path, store: Store
) -> None:
    model = write_model(tmp_path / "model")
    wrong = "ab" * 32
    loaded = load(
        tmp_path,
        model__config__files=[{"path": "config.json", "digest": wrong}],
        model__tokenizer__files=[
            {"path": "tokenizer.json", "digest": wrong},
            {"path": "vocab.json"},
        ],
    )
    (model / "vocab.json").write_text("{}")
    with pytest.raises(
        IntegrityError, match="2 files are not what the manifest declares"
    ) as caught:
        resolve_lock(loaded, store, previous=None)
    assert caught.value.exit_code == 4
    found = Sha256.of((model / "config.json").read_bytes())
    told = str(caught.value.cause)
    assert f"model.config config.json: declared sha256:{wrong}, found {found}" in told
    assert "model.tokenizer tokenizer.json" in told
    assert "vocab.json" not in told


def test_what_does_not_have_its_declared_digest_leaves_nothing_in_the_store(
    tmp_path: Path, store: Store
) -> None:
    write_model(tmp_path / "model")
    files = [{"path": "config.json", "digest": "ab" * 32}]
    with pytest.raises(IntegrityError):
        resolve_lock(load(tmp_path, model__config__files=files), store, previous=None)
    right = resolve_lock(load(tmp_path), store, previous=None)
    key = fixed_output_key(
        {**file.identity, "sha256": file.digest}
        for file in right.files_of("model.config")
        if file.path == "config.json"
    )
    assert store.realisations(key) == []


def test_a_refused_manifest_leaves_nothing_in_the_store(tmp_path: Path, store: Store) -> None:
    model = write_model(tmp_path / "model")
    (model / "model.safetensors").write_bytes(safetensors_bytes(1.0)[:-1])
    with pytest.raises(LockRefusedError):
        resolve_lock(load(tmp_path), store, previous=None)
    (model / "model.safetensors").unlink()
    (model / "other.safetensors").write_bytes(safetensors_bytes(1.0))
    lock = resolve_lock(load(tmp_path), store, previous=None)
    assert [len(store.realisations(key_of(lock, name))) for name in NAMES] == [1, 1, 1, 1]


def test_a_model_without_a_chat_template_is_locked_without_one(
    tmp_path: Path, store: Store
) -> None:
    model = write_model(tmp_path / "model")
    (model / "chat_template.jinja").unlink()
    loaded = load(tmp_path)
    lock = resolve_lock(loaded, store, previous=None)
    assert lock.files_of("model.chat_template") == ()
    assert stale_artifacts(loaded, lock) == []
    (model / "chat_template.jinja").write_text("new")
    assert resolve_lock(loaded, store, previous=lock) is lock
    updated = resolve_lock(loaded, store, previous=lock, update=["model.chat_template"])
    assert len(updated.files_of("model.chat_template")) == 1


def test_shards_and_their_index_are_found_and_other_files_are_left_alone(
    tmp_path: Path, store: Store
) -> None:
    model = write_model(tmp_path / "model")
    (model / "model.safetensors").unlink()
    (model / "model-1.safetensors").write_bytes(safetensors_bytes(1.0, name="a"))
    (model / "model-2.safetensors").write_bytes(safetensors_bytes(1.0, name="b"))
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    write_json(model / "model.safetensors.index.json", index)
    (model / "README.md").write_text("text")
    lock = resolve_lock(load(tmp_path), store, previous=None)
    assert [file.path for file in lock.files_of("model.weight")] == [
        "model-1.safetensors",
        "model-2.safetensors",
        "model.safetensors.index.json",
    ]
    assert "README.md" not in {file.path for file in lock.artifacts}


def test_a_repository_is_locked_from_its_files_on_this_machine_with_its_commit(
    tmp_path: Path, store: Store
) -> None:
    write_model(tmp_path / "model")
    commit = "0123456789" * 4
    source = {"type": "huggingface", "repo": "a/b", "revision": commit, "local_path": "model"}
    loaded = load(
        tmp_path,
        model__weights={"source": source, "files": [{"path": "model.safetensors"}]},
        model__tokenizer__files=[{"path": "tokenizer.json"}],
        model__config__files=[{"path": "config.json"}],
    )
    lock = resolve_lock(loaded, store, previous=None)
    assert lock.sources == {name: {"commit": commit} for name in NAMES}
    local = resolve_lock(load(tmp_path), store, previous=None)
    assert lock.lock_id != local.lock_id
    assert lock.artifacts[-1].retrieval["repository"] == "a/b"


def test_files_in_subdirectories_and_links_of_a_hub_cache_are_taken(
    tmp_path: Path, store: Store
) -> None:
    repository = tmp_path / "models--a--b"
    snapshot = write_model(repository / "snapshots/abc")
    (repository / "blobs").mkdir()
    (snapshot / "model.safetensors").rename(repository / "blobs/1")
    (snapshot / "model.safetensors").symlink_to("../../blobs/1")
    (snapshot / "sub").mkdir()
    (snapshot / "sub/config.json").write_text("{}")
    loaded = load(
        tmp_path,
        f"model.weights.source.local_path={snapshot}",
        model__config__files=[{"path": "sub/config.json"}],
    )
    lock = resolve_lock(loaded, store, previous=None)
    assert [file.path for file in lock.files_of("model.config")] == ["sub/config.json"]
    assert lock.files_of("model.weight")[0].digest == Sha256.of(safetensors_bytes(1.0, 2.0))


def test_locking_can_be_interrupted_between_files(tmp_path: Path, store: Store) -> None:
    write_model(tmp_path / "model")
    calls = iter(range(100))

    def interrupt() -> None:
        if next(calls) == 3:
            raise InterruptedBuildError("locking was interrupted")

    with pytest.raises(InterruptedBuildError):
        resolve_lock(load(tmp_path), store, previous=None, check_interrupted=interrupt)
    assert resolve_lock(load(tmp_path), store, previous=None).artifacts


def locked_files(lock: Lock, name: str) -> list[dict[str, Any]]:
    return [{**file.identity, "sha256": file.digest} for file in lock.files_of(name)]


def fetch(loaded: LoadedManifest, store: Store, kind: str, files: list[dict[str, Any]]) -> Digest:
    with store.new_tree() as tree:
        ManifestSources(loaded).fetch(kind, files, tree, lambda: None)
        return tree.register()


def test_what_was_locked_can_be_fetched_into_another_store(tmp_path: Path, store: Store) -> None:
    write_model(tmp_path / "model")
    loaded = load(tmp_path)
    lock = resolve_lock(loaded, store, previous=None)
    record = store.chosen(key_of(lock, "model.weight"))
    assert record is not None
    with Store.open(tmp_path / "other store") as other:
        files = locked_files(lock, "model.weight")
        assert fetch(loaded, other, "weights", files) == record.outputs["out"]


def test_fetching_compares_bytes_with_the_lock(tmp_path: Path, store: Store) -> None:
    model = write_model(tmp_path / "model")
    loaded = load(tmp_path)
    files = locked_files(resolve_lock(loaded, store, previous=None), "model.config")
    with pytest.raises(IntegrityError, match=r"config\.json is not the file that was locked"):
        fetch(loaded, store, "config", [{**files[0], "size": 99}])
    (model / "config.json").write_text("[]\n")
    # The store has the file still, so the directory is not asked.
    fetch(loaded, store, "config", files)
    with (
        Store.open(tmp_path / "empty") as empty,
        pytest.raises(
            IntegrityError, match=r"config\.json is not the file that was locked"
        ) as caught,
    ):
        fetch(loaded, empty, "config", files)
    assert str(files[0]["digest"]) in str(caught.value.cause)
    assert str(Sha256.of(b"[]\n")) in str(caught.value.cause)
    (model / "config.json").unlink()
    with (
        Store.open(tmp_path / "empty") as empty,
        pytest.raises(BuildError, match=r"config\.json cannot be fetched"),
    ):
        fetch(loaded, empty, "config", files)


def test_fetching_what_has_no_source_says_so(tmp_path: Path, store: Store) -> None:
    write_model(tmp_path / "model")
    files = locked_files(resolve_lock(load(tmp_path), store, previous=None), "model.weight")
    entry = [{"path": "x", "digest": "ab" * 32}]
    source = {"type": "local", "local_path": "nowhere"}
    hub = load(
        tmp_path,
        model__weights={"source": source, "files": entry},
        model__tokenizer__files=[{"path": "y"}],
        model__config__files=[{"path": "z"}],
    )
    with (
        Store.open(tmp_path / "empty") as empty,
        pytest.raises(UnfitEnvironmentError, match="the weights cannot be fetched") as caught,
    ):
        fetch(hub, empty, "weights", files)
    assert "there is no directory" in str(caught.value.cause)
    with pytest.raises(UnfitEnvironmentError, match="no source of its dataset"):
        fetch(hub, store, "dataset", files)


def test_a_lock_says_when_it_was_made_in_utc(tmp_path: Path, store: Store) -> None:
    write_model(tmp_path / "model")
    lock = resolve_lock(load(tmp_path), store, previous=None)
    assert datetime.fromisoformat(lock.generated_at).tzinfo == UTC
