from pathlib import Path
from typing import Any

from dis_derivations.manifest.artifact_groups import ArtifactGroup, artifact_groups
from dis_derivations.manifest.loading import load_manifest
from manifest_documents import smallest_manifest, write_json


def groups(path: Path, document: dict[str, Any], *overrides: str) -> dict[str, ArtifactGroup]:
    loaded = load_manifest(write_json(path / "manifest.json", document), overrides)
    return {group.label: group for group in artifact_groups(loaded)}


def test_the_source_of_the_weights_holds_for_the_rest_of_the_model(tmp_path: Path) -> None:
    found = groups(tmp_path, smallest_manifest())
    assert list(found) == ["weights", "tokenizer", "config", "chat_template"]
    assert {group.source.location for group in found.values()} == {tmp_path / "model"}


def test_a_group_with_a_source_of_its_own_uses_that(tmp_path: Path) -> None:
    document = smallest_manifest(
        model__tokenizer__source={"type": "local", "local_path": "../words"},
        model__chat_template__source={"type": "local", "local_path": "chat"},
    )
    found = groups(tmp_path / "below", document)
    assert found["tokenizer"].source.location == tmp_path / "words"
    assert found["chat_template"].source.location == tmp_path / "below/chat"
    assert found["config"].source.location == tmp_path / "below/model"


def test_a_path_begins_at_the_file_that_wrote_it_and_an_override_at_the_working_directory(
    tmp_path: Path,
) -> None:
    write_json(tmp_path / "base/base.json", smallest_manifest())
    near = {"x_base_manifest": "../base/base.json", "metadata": {"name": "near"}}
    assert groups(tmp_path / "near", near)["weights"].source.location == tmp_path / "base/model"
    overridden = groups(tmp_path / "near", near, "model.weights.source.local_path=m")
    assert overridden["weights"].source.location == Path.cwd() / "m"


def test_a_dataset_is_a_path_or_a_source_and_has_a_name_of_ours(tmp_path: Path) -> None:
    template = {"kind": "chat", "sampling": {"temperature": 0, "max_tokens": 1}}

    def dataset(value: Any) -> ArtifactGroup:
        inference = {"n_prompts": 1, "request_template": template, "dataset": value}
        return groups(tmp_path, smallest_manifest(inference=inference))["dataset"]

    plain = dataset({"source": "some/prompts.txt", "format": "text"})
    assert plain.source.location == tmp_path / "some/prompts.txt"
    assert [file.path for file in plain.files] == ["dataset.txt"]
    source = {"type": "local", "local_path": "some/prompts.txt"}
    assert dataset({"source": source}).source.location == tmp_path / "some/prompts.txt"
    hub = dataset({"source": {"type": "huggingface", "repo": "a/b", "revision": "c"}})
    assert hub.source.location is None
    assert [file.path for file in hub.files] == ["dataset.json"]


def test_a_group_is_pinned_when_every_file_has_its_digest(tmp_path: Path) -> None:
    digest = "ab" * 32

    def pinned(*digests: str | None) -> bool:
        files = [
            {"path": f"{index}.safetensors"} | ({"digest": digest} if digest else {})
            for index, digest in enumerate(digests)
        ]
        return groups(tmp_path, smallest_manifest(model__weights__files=files))["weights"].is_pinned

    assert pinned(digest, digest)
    assert not pinned(digest, None)
    assert not pinned(digest, "sha256:unset")
    assert not pinned()


def test_what_lies_beside_a_gguf_file_is_not_looked_for(tmp_path: Path) -> None:
    document = smallest_manifest(model__weights__files=[{"path": "m.gguf"}])
    found = groups(tmp_path, document)
    others = [found[name] for name in ("tokenizer", "config", "chat_template")]
    assert [(group.files, group.found, group.needed) for group in others] == [((), (), None)] * 3
    named = {"source": {"type": "local", "local_path": "words"}}
    own = groups(tmp_path, {**document, "model": {**document["model"], "tokenizer": named}})
    assert "tokenizer.json" in own["tokenizer"].found
