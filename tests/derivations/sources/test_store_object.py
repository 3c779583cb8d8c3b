"""Objects of a store as sources: of this one and of another one, by digest and by root."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.lock.checking import check_lock
from dis_derivations.lock.document import Lock
from dis_derivations.lock.location import LockLocation
from dis_derivations.lock.making import make_lock
from dis_derivations.lock.refusals import LockRefusedError
from dis_derivations.manifest.loading import load_manifest
from dis_derivations.manifest.reading import read_manifest_files
from dis_derivations.realisation.manifest_target import plan_target
from dis_derivations.realisation.target import TargetRequest
from dis_store import Root, Store
from dis_store.digest import Digest
from dis_store.errors import IntegrityError, InvalidInputError, MismatchError
from run_shelf import make_writable
from tiny_runs import lock_of, realise, write_manifest


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened
    make_writable(tmp_path / "store")


def add_model(store: Store, model: Path, below: str = "") -> Digest:
    with store.new_tree() as tree:
        for file in sorted(model.iterdir()):
            tree.ingest(f"{below}{file.name}", file)
        return tree.register()


def set_root(store: Store, name: str, digest: Digest) -> None:
    store.set_root(name, Root(object=digest))


def manifest(place: Path, source: dict[str, str], **blocks: Any) -> Path:
    """Write a manifest of a model that is an object."""
    path = write_manifest(place, **blocks)
    document = json.loads(path.read_text("utf-8"))
    document["model"]["weights"]["source"] = {"type": "store", **source}
    path.write_text(json.dumps(document), "utf-8")
    return path


def lock(config: Path) -> Lock:
    return Lock.decode(lock_of(config).read_bytes(), name="the lock")


def test_a_model_of_an_object_is_the_one_that_was_locked(tmp_path: Path, store: Store) -> None:
    local = write_manifest(tmp_path / "local")
    expected = realise(store, local, target="generation")
    digest = add_model(store, tmp_path / "local/model")
    by_digest = manifest(tmp_path / "digest", {"id": digest})
    assert realise(store, by_digest, target="generation").outputs == expected.outputs
    assert lock(by_digest).sources["model.weight"] == {"commit": digest}
    assert [f.identity for f in lock(by_digest).artifacts] == [
        f.identity for f in lock(local).artifacts
    ]


def test_a_root_that_moved_changes_nothing_of_what_was_locked(tmp_path: Path, store: Store) -> None:
    config = manifest(tmp_path / "m", {"id": "a-model"})
    first = add_model(store, tmp_path / "m/model")
    set_root(store, "a-model", first)
    expected = realise(store, config)
    (tmp_path / "m/model/generation_config.json").write_text('{"x":1}', "utf-8")
    set_root(store, "a-model", add_model(store, tmp_path / "m/model"))
    assert realise(store, config).outputs == expected.outputs
    loaded = load_manifest(config)
    found = check_lock(loaded, lock(config), store)
    kinds = {(each.kind, each.path) for each in found.findings}
    assert kinds == {("commit", ""), ("digest", "generation_config.json")}
    assert "'a-model' is" in found.findings[0].message
    raw = read_manifest_files(config)
    moved, _ = make_lock(store, loaded, LockLocation.of(raw), update=["model.config"])
    assert moved.sources["model.weight"] == {"commit": first}
    assert moved.sources["model.config"] != {"commit": first}
    assert check_lock(loaded, moved, store).differing == (
        "model.weight",
        "model.tokenizer",
        "model.chat_template",
    )


def test_the_files_may_be_in_a_directory_of_the_object(tmp_path: Path, store: Store) -> None:
    config = manifest(tmp_path / "m", {"id": "closure", "path": "deep/model"})
    set_root(store, "closure", add_model(store, tmp_path / "m/model", "deep/model/"))
    assert realise(store, config, target="weights").outputs
    assert {file.path for file in lock(config).files_of("model.config")} == {
        "config.json",
        "generation_config.json",
    }


def test_a_directory_is_for_objects_alone(tmp_path: Path, store: Store) -> None:
    config = write_manifest(tmp_path)
    with pytest.raises(InvalidInputError, match="has 'path', which a dataset's source has"):
        realise(store, config, "model.weights.source.path=x")


def test_another_store_is_read_and_gives_the_same(tmp_path: Path, store: Store) -> None:
    config = manifest(tmp_path / "m", {"id": "a-model", "local_path": "../other"})
    with Store.open(tmp_path / "other") as other:
        digest = add_model(other, tmp_path / "m/model")
        set_root(other, "a-model", digest)
        before = set(other.objects())
    expected = realise(store, write_manifest(tmp_path / "local"), target="generation")
    with Store.open(tmp_path / "fresh") as fresh:
        found = realise(fresh, config, target="generation")
        assert found.outputs["results"] == expected.outputs["results"]
    with Store.open(tmp_path / "other") as other:
        assert set(other.objects()) == before
    for each in ("other", "fresh"):
        make_writable(tmp_path / each)


def test_a_damaged_file_of_another_store_is_refused(tmp_path: Path, store: Store) -> None:
    config = manifest(tmp_path / "m", {"id": "a-model", "local_path": "../other"})
    with Store.open(tmp_path / "other") as other:
        digest = add_model(other, tmp_path / "m/model")
        set_root(other, "a-model", digest)
        place = other.file_path(digest, "tokenizer.json")
    make_writable(tmp_path / "other")
    place.chmod(0o644)
    data = bytearray(place.read_bytes())
    data[-2] ^= 1
    place.write_bytes(data)
    with pytest.raises(IntegrityError, match="BLAKE3"):
        realise(store, config)
    assert not lock_of(config).exists()


def test_an_object_of_other_files_than_were_locked_is_a_mismatch(
    tmp_path: Path, store: Store
) -> None:
    config = manifest(tmp_path / "m", {"id": "a-model", "local_path": "../other"})
    with Store.open(tmp_path / "other") as other:
        set_root(other, "a-model", add_model(other, tmp_path / "m/model"))
    realise(store, config, target="config")
    changed = lock_of(config).read_text("utf-8")
    with Store.open(tmp_path / "fresh") as fresh, Store.open(tmp_path / "other") as other:
        (tmp_path / "m/model/config.json").write_text("{}", "utf-8")
        digest = add_model(other, tmp_path / "m/model")
        document = json.loads(changed)
        was = document["sources"]["model.config"]["commit"]
        # A lock whose digests of files are one thing and whose object is another.
        data = changed.replace(was, digest).encode()
        with pytest.raises(IntegrityError):
            Lock.decode(data, name="the lock")
        parts = Lock.decode(changed.encode(), name="the lock")
        sources = {name: {"commit": str(digest)} for name in parts.sources}
        lock_of(config).write_bytes(
            Lock(parts.manifest_id, parts.generated_at, parts.artifacts, sources).encode()
        )
        with pytest.raises(MismatchError, match=r"config\.json is not the file that was locked"):
            realise(fresh, config, target="config")
    for each in ("other", "fresh"):
        make_writable(tmp_path / each)


@pytest.mark.parametrize("name", ["no-such-root", "ab" * 32, "../../etc", "-x", ""])
def test_what_is_no_object_is_refused_in_one_line(tmp_path: Path, store: Store, name: str) -> None:
    config = manifest(tmp_path / "m", {"id": name or "x" * 300})
    with pytest.raises((LockRefusedError, InvalidInputError, IntegrityError)) as caught:
        realise(store, config)
    assert caught.value.exit_code in {2, 4, 5}
    assert not lock_of(config).exists()


def test_pickles_of_an_object_are_refused_as_everywhere(tmp_path: Path, store: Store) -> None:
    config = manifest(tmp_path / "m", {"id": "a-model"})
    (tmp_path / "m/model/tokenizer_config.json").unlink(missing_ok=True)
    with store.new_tree() as tree:
        tree.write_bytes("model.safetensors", b"\x80\x04K\x01.")
        for file in sorted((tmp_path / "m/model").glob("*.json")):
            tree.ingest(file.name, file)
        set_root(store, "a-model", tree.register())
    with pytest.raises(LockRefusedError):
        realise(store, config)


def test_a_dataset_is_a_file_of_an_object(tmp_path: Path, store: Store) -> None:
    place = tmp_path / "m"
    local = write_manifest(place)
    expected = realise(store, local, target="requests")
    with store.new_tree() as tree:
        tree.ingest("deep/prompts.txt", place / "prompts.txt")
        set_root(store, "prompts", tree.register())
    source = '{"type":"store","id":"prompts","path":"deep/prompts.txt"}'
    override = f"inference.dataset.source={source}"
    assert realise(store, local, override, target="requests").outputs == expected.outputs
    pathless = 'inference.dataset.source={"type":"store","id":"prompts"}'
    with pytest.raises(LockRefusedError, match="cannot be pinned") as caught:
        realise(store, local, pathless, target="requests")
    assert "--set inference.dataset.source.path=PATH" in str(caught.value.hint)


def test_a_dry_run_downloads_nothing_from_a_store(tmp_path: Path, store: Store) -> None:
    config = manifest(tmp_path / "m", {"id": "a-model"})
    set_root(store, "a-model", add_model(store, tmp_path / "m/model"))
    assert plan_target(store, TargetRequest(config)).downloads == ()


def test_nothing_of_the_objects_is_copied_within_one_store(tmp_path: Path, store: Store) -> None:
    config = manifest(tmp_path / "m", {"id": "a-model"})
    digest = add_model(store, tmp_path / "m/model")
    set_root(store, "a-model", digest)
    realised = realise(store, config, target="weights")
    names = [store.file_path(each, "model.safetensors") for each in (digest, realised.main_output)]
    assert names[0].samefile(names[1])
