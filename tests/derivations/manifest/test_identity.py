import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dis_derivations.manifest.loading import load_manifest
from dis_store import canonical_json
from manifest_documents import SAMPLES, put, smallest_manifest, write_json

DIGEST = "sha256:" + "ab" * 32


def manifest_id(path: Path, document: Any, *overrides: str) -> str:
    return load_manifest(write_json(path / "manifest.json", document), overrides).manifest_id


def _shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, list):
        return [_shuffled(item, order) for item in value]
    if not isinstance(value, dict):
        return value
    pairs = [(key, _shuffled(item, order)) for key, item in value.items()]
    order.shuffle(pairs)
    return dict(pairs)


@given(order=st.randoms(use_true_random=False), indent=st.sampled_from([None, 0, 1, 7, "\t"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_neither_the_order_of_keys_nor_whitespace_changes_the_id(
    tmp_path: Path, order: random.Random, indent: Any
) -> None:
    document = smallest_manifest(vllm__engine_args={"dtype": "float32", "max_model_len": 64})
    path = tmp_path / "shuffled.json"
    path.write_text(json.dumps(_shuffled(document, order), indent=indent), "utf-8")
    assert load_manifest(path).manifest_id == manifest_id(tmp_path, document)


@given(st.text(max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_a_description_changes_the_id(tmp_path: Path, text: str) -> None:
    document = smallest_manifest(metadata__description=text)
    changed = smallest_manifest(metadata__description=text + "!")
    assert manifest_id(tmp_path, document) != manifest_id(tmp_path, changed)


def test_the_id_is_the_hash_of_what_is_used(tmp_path: Path) -> None:
    loaded = load_manifest(write_json(tmp_path / "manifest.json", smallest_manifest()))
    assert loaded.manifest_id == canonical_json.sha256(loaded.used)


def test_no_default_is_filled_in_so_an_explicit_one_is_another_manifest(tmp_path: Path) -> None:
    explicit = smallest_manifest(vllm__mode="offline")
    assert manifest_id(tmp_path, smallest_manifest()) != manifest_id(tmp_path, explicit)


@pytest.mark.parametrize(
    "members",
    [
        {"model__weights__source__local_path": "elsewhere/model"},
        {"model__weights__source__local_path": "/mnt/models/one"},
        {"artifacts__lockfile": "some.lock.json"},
        {"artifacts__store": {"type": "oci", "registry": "example.com/x"}},
        {"outputs__directory": "elsewhere/${run_id}"},
        {"outputs__golden": {"enabled": True, "path": "golden"}},
        {"runtime__execution__base_url": "http://127.0.0.1:9"},
        {"model__weights__source__mirrors": ["https://mirror.example"]},
    ],
)
def test_what_only_says_where_changes_nothing(tmp_path: Path, members: dict[str, Any]) -> None:
    assert manifest_id(tmp_path, smallest_manifest()) == manifest_id(
        tmp_path, smallest_manifest(**members)
    )


@pytest.mark.parametrize(
    "members",
    [
        {"metadata__owners": ["someone"]},
        {"runtime__execution__timeout_seconds": 5},
        {"runtime__env__NAME": "value"},
        {"vllm__env__local_path": "a variable, whatever its name"},
        {"x_note": 1},
        {"model__weights__files": [{"path": "a.safetensors", "digest": DIGEST}]},
    ],
)
def test_everything_else_changes_the_id(tmp_path: Path, members: dict[str, Any]) -> None:
    assert manifest_id(tmp_path, smallest_manifest()) != manifest_id(
        tmp_path, smallest_manifest(**members)
    )


def test_an_address_counts_until_a_digest_stands_beside_it(tmp_path: Path) -> None:
    def package(url: str, digest: str) -> dict[str, Any]:
        source = {"type": "url", "url": url, "digest": digest}
        return {
            "software_stack__python": {
                "version": "3",
                "packages": [{"name": "p", "source": source}],
            }
        }

    def same(digest: str) -> bool:
        one, two = (smallest_manifest(**package(url, digest)) for url in ("https://a", "https://b"))
        return manifest_id(tmp_path, one) == manifest_id(tmp_path, two)

    assert same(DIGEST)
    assert not same("sha256:unset")


def test_the_address_of_weights_counts_until_every_file_from_it_is_pinned(tmp_path: Path) -> None:
    document = smallest_manifest(
        model__weights__files=[{"path": "m.safetensors", "digest": DIGEST}],
        model__tokenizer__files=[{"path": "tokenizer.json", "digest": DIGEST}],
        model__config__files=[{"path": "config.json"}],
        model__chat_template__file={"path": "chat_template.jinja", "digest": DIGEST},
    )

    def same() -> bool:
        ids = set()
        for url in ("https://a", "https://b"):
            document["model"]["weights"]["source"] = {"type": "url", "url": url}
            ids.add(manifest_id(tmp_path, document))
        return len(ids) == 1

    assert not same()
    put(document, "/model/config/files/0/digest", DIGEST)
    assert same()
    put(document, "/model/weights/files/0/digest", "sha256:unset")
    assert not same()


def test_where_a_dataset_lies_changes_nothing_and_its_format_does(tmp_path: Path) -> None:
    template = {"kind": "chat", "sampling": {"temperature": 0, "max_tokens": 1}}

    def with_dataset(dataset: Any) -> str:
        inference = {"n_prompts": 1, "request_template": template, "dataset": dataset}
        return manifest_id(tmp_path, smallest_manifest(inference=inference))

    local = {"source": {"type": "local", "local_path": "b.json"}}
    assert with_dataset({"source": "a.json"}) == with_dataset({"source": "b/c.json"})
    assert with_dataset({"source": "a.json"}) == with_dataset(local)
    assert with_dataset({"source": "a.json"}) != with_dataset(
        {"source": "a.json", "format": "text"}
    )
    assert with_dataset({"source": "a.json"}) != with_dataset(
        {"source": "a.json", "digest": DIGEST}
    )
    one, two = ({"source": {"type": "url", "url": url}} for url in ("https://a", "https://b"))
    assert with_dataset(one) != with_dataset(two)
    assert with_dataset({**one, "digest": DIGEST}) == with_dataset({**two, "digest": DIGEST})


def test_a_manifest_and_its_base_have_the_id_of_the_merged_document(tmp_path: Path) -> None:
    document = smallest_manifest()
    runtime = document.pop("runtime")
    write_json(tmp_path / "bases/base.json", {"runtime": runtime, "metadata": {"name": "base"}})
    document["x_base_manifest"] = "bases/base.json"
    assert manifest_id(tmp_path, document) == manifest_id(tmp_path, smallest_manifest())


def test_an_override_has_the_id_of_the_written_change(tmp_path: Path) -> None:
    changed = smallest_manifest(metadata__description="new")
    overridden = manifest_id(tmp_path, smallest_manifest(), "metadata.description=new")
    assert overridden == manifest_id(tmp_path, changed)


def test_no_path_of_a_machine_is_in_what_is_used(tmp_path: Path) -> None:
    document = smallest_manifest(
        model__weights__source__local_path="/secret/model",
        model__tokenizer__source={"type": "local", "local_path": "/secret/tokenizer"},
        artifacts__lockfile="/secret/lock.json",
        outputs__directory="/secret/runs",
        runtime__execution__base_url="http://secret:1",
        x_note={"local_path": "/secret/note"},
    )
    loaded = load_manifest(write_json(tmp_path / "manifest.json", document))
    assert "secret" not in json.dumps(loaded.used)
    assert str(tmp_path) not in json.dumps(loaded.used)


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"there are no samples at {SAMPLES}")
def test_samples_have_ids_of_their_own() -> None:
    ids = [load_manifest(path).manifest_id for path in SAMPLES.glob("*.json")]
    assert len(set(ids)) == len(ids)
