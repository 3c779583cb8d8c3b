from pathlib import Path
from typing import Any

from dis_derivations.lock.document import Lock, LockedFile
from dis_derivations.lock.staleness import retrieval_of, stale_artifacts
from dis_derivations.manifest.artifact_groups import artifact_groups
from dis_derivations.manifest.loading import LoadedManifest, load_manifest
from dis_store.digest import Sha256
from manifest_documents import smallest_manifest, write_json

DIGEST = "sha256:" + "ab" * 32
OTHER = "sha256:" + "cd" * 32
COMMIT = "0" * 40
WEIGHTS = "/model/weights"


def load(path: Path, *overrides: str, **members: Any) -> LoadedManifest:
    document = smallest_manifest(model__chat_template={"file": {"path": "t.jinja"}})
    for pointer, value in members.items():
        document["model"][pointer] = value
    return load_manifest(write_json(path / "manifest.json", document), overrides)


def locked(loaded: LoadedManifest) -> Lock:
    """Return a lock of a manifest as if every file had been found."""
    names = {
        "model.weight": "w.safetensors",
        "model.tokenizer": "tokenizer.json",
        "model.config": "config.json",
    }
    files = [
        LockedFile(
            name=group.name,
            path=path,
            size=1,
            digest=digest or Sha256(DIGEST),
            executable=False,
            digest_source="computed",
            retrieval=retrieval_of(group),
        )
        for group in artifact_groups(loaded)
        for path, digest in [(file.path, file.sha256) for file in group.files]
        or [(names[group.name], None)]
    ]
    return Lock(loaded.manifest_id, "2026-11-29T00:00:00Z", tuple(files), {})


def test_a_lock_fits_the_manifest_it_was_made_from(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    assert stale_artifacts(loaded, locked(loaded)) == []


def test_a_change_that_is_not_of_a_source_makes_nothing_stale(tmp_path: Path) -> None:
    lock = locked(load(tmp_path))
    changed = load(
        tmp_path, "metadata.description=new", "inference.requests.0.prompt=new", "x_note=1"
    )
    assert changed.manifest_id != lock.manifest_id
    assert stale_artifacts(changed, lock) == []


def test_another_directory_makes_stale_what_is_not_pinned_by_digest(tmp_path: Path) -> None:
    lock = locked(load(tmp_path))
    moved = load(tmp_path, "model.weights.source.local_path=other")
    assert stale_artifacts(moved, lock) == [
        "model.weight",
        "model.tokenizer",
        "model.config",
        "model.chat_template",
    ]


def test_another_directory_changes_nothing_for_files_with_digests(tmp_path: Path) -> None:
    weights = {
        "source": {"type": "local", "local_path": "one"},
        "files": [{"path": "w.safetensors", "digest": DIGEST}],
    }
    tokenizer = {"source": {"type": "local", "local_path": "two"}}
    config = {"source": {"type": "local", "local_path": "two"}}
    template = {"source": {"type": "local", "local_path": "two"}, "file": {"path": "t.jinja"}}
    blocks = {
        "weights": weights,
        "tokenizer": tokenizer,
        "config": config,
        "chat_template": template,
    }
    lock = locked(load(tmp_path, **blocks))
    assert (
        stale_artifacts(load(tmp_path, "model.weights.source.local_path=x", **blocks), lock) == []
    )
    digest = f"model.weights.files.0.digest={OTHER}"
    assert stale_artifacts(load(tmp_path, digest, **blocks), lock) == ["model.weight"]
    path = "model.weights.files.0.path=other.safetensors"
    assert stale_artifacts(load(tmp_path, path, **blocks), lock) == ["model.weight"]


def test_only_the_group_whose_own_source_changed_is_stale(tmp_path: Path) -> None:
    tokenizer = {"source": {"type": "local", "local_path": "words"}}
    lock = locked(load(tmp_path, tokenizer=tokenizer))
    changed = load(tmp_path, "model.tokenizer.source.local_path=x", tokenizer=tokenizer)
    assert stale_artifacts(changed, lock) == ["model.tokenizer"]


def test_a_file_that_is_added_to_a_list_or_taken_from_it_makes_its_artifact_stale(
    tmp_path: Path,
) -> None:
    config = {"files": [{"path": "config.json"}, {"path": "generation_config.json"}]}
    lock = locked(load(tmp_path, config=config))
    assert stale_artifacts(load(tmp_path, config=config), lock) == []
    shorter = load(tmp_path, config={"files": config["files"][:1]})
    assert stale_artifacts(shorter, lock) == ["model.config"]
    found = load(tmp_path, config={"files": []})
    assert stale_artifacts(found, lock) == ["model.config"]


def test_a_declared_digest_that_is_the_locked_one_makes_nothing_stale(tmp_path: Path) -> None:
    config = {"files": [{"path": "config.json"}]}
    lock = locked(load(tmp_path, config=config))
    same = load(tmp_path, f"model.config.files.0.digest={DIGEST}", config=config)
    assert stale_artifacts(same, lock) == []
    other = load(tmp_path, f"model.config.files.0.digest={OTHER}", config=config)
    assert stale_artifacts(other, lock) == ["model.config"]


def test_another_commit_makes_stale_even_what_is_pinned(tmp_path: Path) -> None:
    source = {"type": "huggingface", "repo": "a/b", "revision": COMMIT, "local_path": "m"}
    blocks = {
        "weights": {"source": source, "files": [{"path": "w.safetensors", "digest": DIGEST}]},
        "tokenizer": {"files": [{"path": "tokenizer.json", "digest": DIGEST}]},
        "config": {"files": [{"path": "config.json", "digest": DIGEST}]},
    }
    lock = locked(load(tmp_path, **blocks))
    assert stale_artifacts(load(tmp_path, **blocks), lock) == []
    moved = load(tmp_path, f"model.weights.source.revision={'1' * 40}", **blocks)
    assert "model.weight" in stale_artifacts(moved, lock)


def test_an_artifact_that_the_lock_lacks_is_stale_and_so_is_one_that_the_manifest_lost(
    tmp_path: Path,
) -> None:
    loaded = load(tmp_path)
    lock = locked(loaded)
    without = Lock(
        lock.manifest_id,
        lock.generated_at,
        tuple(file for file in lock.artifacts if file.name != "model.config"),
        {},
    )
    assert stale_artifacts(loaded, without) == ["model.config"]
    dataset = LockedFile(
        "inference.prompt_dataset", "dataset.json", 1, Sha256(DIGEST), False, "computed", {}
    )  # fmt: skip
    more = Lock(lock.manifest_id, lock.generated_at, (*lock.artifacts, dataset), {})
    assert stale_artifacts(loaded, more) == ["inference.prompt_dataset"]


def test_a_template_that_was_not_there_is_looked_for_again_when_the_directory_changed(
    tmp_path: Path,
) -> None:
    loaded = load(tmp_path, chat_template={})
    lock = locked(load(tmp_path))
    lock = Lock(
        lock.manifest_id,
        lock.generated_at,
        tuple(file for file in lock.artifacts if file.name != "model.chat_template"),
        {},
    )
    assert stale_artifacts(loaded, lock) == []
    moved = load(tmp_path, "model.weights.source.local_path=other", chat_template={})
    assert "model.chat_template" in stale_artifacts(moved, lock)
