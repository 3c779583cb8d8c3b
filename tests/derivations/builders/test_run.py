"""The bundle: a pure function of results, manifest and lock, that holds nothing of the machine."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from dis_store import Store
from dis_store.digest import Digest
from tiny_runs import realise, write_manifest

LOGITS = 'capture.logits={"enabled":true,"capture_decode":true}'


def read(store: Store, digest: Digest, name: str) -> Any:
    return json.loads(store.read_bytes(digest, name))


def test_a_bundle_describes_itself(store: Store, config: Path) -> None:
    bundle = realise(store, config, LOGITS).outputs["bundle"]
    document = read(store, bundle, "bundle.json")
    assert document["kind"] == "vllm.deterministic_run_bundle"
    assert document["name"] == "tiny"
    assert document["engine"]["engine"] == "reference"
    assert document["platform"] == {"class": "any", "facts": {}}
    assert document["capture"] == {
        "tokens": "captured",
        "logits": "captured",
        "activations": "not requested",
        "engine_trace": "not requested",
    }
    assert document["grade"] == "conformant"
    assert set(document["inputs"]) == {
        "weights",
        "tokenizer",
        "config",
        "dataset",
        "requests",
        "closure",
    }
    for digest in [*document["inputs"].values(), document["results"]]:
        assert store.is_valid(Digest(digest))


def test_captures_are_referred_to_and_stored_once(store: Store, config: Path) -> None:
    bundle = realise(store, config, LOGITS).outputs["bundle"]
    results = Digest(read(store, bundle, "bundle.json")["results"])
    assert store.file_path(bundle, "logits.safetensors") == store.file_path(
        results, "logits.safetensors"
    )
    assert results in store.closure([bundle])


def test_the_ids_can_be_recomputed_from_the_bundle_alone(store: Store, config: Path) -> None:
    from dis_store import canonical_json

    bundle = realise(store, config).outputs["bundle"]
    document = read(store, bundle, "bundle.json")
    manifest = read(store, bundle, "manifest.used.json")
    lock = read(store, bundle, "lock.used.json")
    assert canonical_json.sha256(manifest) == document["manifest_id"]
    lock_id = lock.pop("lock_id")
    assert canonical_json.sha256(lock) == lock_id == document["lock_id"]
    preimage = {
        name: document[name] for name in ("manifest_id", "lock_id", "requests_digest", "platform")
    }
    assert canonical_json.sha256(preimage) == document["run_id"]


def test_two_stores_and_two_directories_give_one_bundle(
    store: Store, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = realise(store, config).outputs["bundle"]
    shutil.copytree(config.parent, tmp_path / "moved elsewhere")
    monkeypatch.chdir(tmp_path)
    old = os.umask(0o077)
    try:
        with Store.open(tmp_path / "another store") as other:
            second = realise(other, Path("moved elsewhere/tiny.json")).outputs["bundle"]
    finally:
        os.umask(old)
    assert second == first


@pytest.mark.parametrize("override", ["metadata.name=renamed", "metadata.description=words"])
def test_another_name_or_description_makes_another_bundle_of_the_same_results(
    store: Store, config: Path, override: str
) -> None:
    one = realise(store, config)
    other = realise(store, config, override)
    before, after = (read(store, run.outputs["bundle"], "bundle.json") for run in (one, other))
    assert one.outputs["bundle"] != other.outputs["bundle"]
    assert before["results"] == after["results"]
    assert store.file_path(one.outputs["log"], "generation/run_log.json") == store.file_path(
        other.outputs["log"], "generation/run_log.json"
    )


def test_the_log_keeps_the_manifest_as_it_was_on_disk_with_its_bases(
    store: Store, tmp_path: Path
) -> None:
    base = write_manifest(tmp_path / "based")
    manifest = base.with_name("derived.json")
    manifest.write_text(
        '{"x_base_manifest": "tiny.json", "metadata": {"name": "derived"}}\n', "utf-8"
    )
    log = realise(store, manifest).outputs["log"]
    assert store.read_bytes(log, "manifest.original.json") == manifest.read_bytes()
    assert store.read_bytes(log, "bases/01-tiny.json") == base.read_bytes()


def test_tokens_are_laid_out_for_the_tools_that_read_them(store: Store, config: Path) -> None:
    bundle = realise(store, config).outputs["bundle"]
    tokens = read(store, bundle, "tokens.json")
    assert tokens["model"] == "tiny"
    assert tokens["provider"] == "reference"
    assert (
        len(tokens["sequences"])
        == len(tokens["decoded_output_text"])
        == len(tokens["parameters"])
        == 3
    )
    assert set(tokens["sequences"][0]) == {"id", "prompt_token_ids", "output_token_ids"}
