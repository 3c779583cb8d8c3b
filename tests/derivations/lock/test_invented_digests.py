import hashlib
import json
from typing import Any

import pytest

from dis_derivations.lock.invented_digests import invented_digests
from dis_derivations.manifest.reading import read_manifest_files
from manifest_documents import SAMPLES, put, smallest_manifest


def invented(preimage: dict[str, Any]) -> str:
    text = json.dumps(preimage, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def model_digest(field: str, path: str, repo: str = "org/name", revision: str = "main") -> str:
    return invented(
        {
            "kind": "bootstrap_model_digest",
            "field_path": field,
            "repo": repo,
            "revision": revision,
            "relative_path": path,
        }
    )


def hub_manifest() -> dict[str, Any]:
    source = {"type": "huggingface", "repo": "org/name", "revision": "main"}
    return smallest_manifest(model__weights__source=source)


def test_a_digest_made_from_the_names_around_it_is_recognised() -> None:
    document = hub_manifest()
    digest = model_digest("model.weights.files[0].digest", "model.safetensors")
    put(document, "/model/weights/files", [{"path": "model.safetensors", "digest": digest}])
    assert invented_digests(document) == {"/model/weights/files/0/digest": f"sha256:{digest}"}


def test_it_is_recognised_tagged_in_capitals_and_after_the_list_was_reordered() -> None:
    document = hub_manifest()
    digest = model_digest("model.tokenizer.files[1].digest", "vocab.json")
    entries = [
        {"path": "vocab.json", "digest": f"sha256:{digest.upper()}"},
        {"path": "a", "digest": "0" * 64},
    ]
    put(document, "/model/tokenizer/files", entries)
    assert list(invented_digests(document)) == ["/model/tokenizer/files/0/digest"]


def test_templates_packages_libraries_and_remote_code_are_recognised() -> None:
    document = hub_manifest()
    template = model_digest("model.chat_template.file.digest", "chat_template.jinja")
    put(
        document,
        "/model/chat_template",
        {"file": {"path": "chat_template.jinja", "digest": template}},
    )
    before = {"type": "wheel", "digest": "sha256:unset"}
    package = {
        "kind": "bootstrap_python_package_digest",
        "field_path": "software_stack.python.packages[0].source.digest",
        "name": "torch",
        "source": before,
        "version": "",
    }
    source = {"type": "wheel", "digest": invented(package)}
    put(document, "/software_stack/python", {"packages": [{"name": "torch", "source": source}]})
    library = {
        "kind": "bootstrap_cuda_digest",
        "field_path": "cuda_stack.userspace.nccl.digest",
        "lib_name": "nccl",
        "version": "2.x",
    }
    put(document, "/cuda_stack/userspace/nccl", {"version": "2.x", "digest": invented(library)})
    code = {
        "kind": "bootstrap_remote_code_digest",
        "field_path": "model.weights.source.remote_code_digest",
        "repo": "org/name",
        "commit": "abc",
    }
    document["model"]["weights"]["source"] |= {
        "remote_code_commit": "abc",
        "remote_code_digest": invented(code),
    }
    assert sorted(invented_digests(document)) == [
        "/cuda_stack/userspace/nccl/digest",
        "/model/chat_template/file/digest",
        "/model/weights/source/remote_code_digest",
        "/software_stack/python/packages/0/source/digest",
    ]


def test_a_digest_of_bytes_is_not_recognised() -> None:
    document = hub_manifest()
    real = hashlib.sha256(b"bytes").hexdigest()
    unset = {"path": "b", "digest": "sha256:unset"}
    put(document, "/model/weights/files", [{"path": "a", "digest": real}, unset, {"path": "c"}])
    assert invented_digests(document) == {}


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"there are no samples at {SAMPLES}")
def test_the_published_samples_hold_as_many_invented_digests_as_counted_by_hand() -> None:
    counts = {
        path.name: len(invented_digests(read_manifest_files(path).document))
        for path in SAMPLES.glob("*.json")
    }
    assert counts == {
        "deepseek-v3-2.json": 7,
        "gpt-oss-20b.json": 14,
        "kimi-k2-thinking.json": 14,
        "minimax-m2-5.json": 15,
        "model-profile.template.json": 0,
        "qwen2-5-32b-instruct.json": 11,
        "qwen3-235b-a22b-instruct-2507.json": 0,
        "qwen3-8b-local-a10.json": 14,
        "qwen3-8b.json": 14,
        "standard-base.json": 0,
    }
