"""The manifest that a user begins with."""

import json
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.manifest.initial import ChosenModel, choose_model, encode, initial_manifest
from dis_derivations.manifest.loading import load_manifest
from dis_store.errors import InvalidInputError
from model_directories import write_model

NOW = "2026-01-31T12:00:00Z"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_model(tmp_path / "models" / "My Llama")


def written(model: ChosenModel, output: Path) -> dict[str, Any]:
    """Write the manifest, check it against the schema, and return it."""
    output.write_bytes(encode(initial_manifest(model, output, created_at=NOW)))
    load_manifest(output)
    document: dict[str, Any] = json.loads(output.read_bytes())
    return document


def chosen(directory: Path | None, *hub: str) -> ChosenModel:
    return choose_model(directory, *hub, working_directory=Path("/"))


def test_every_kind_of_model_makes_a_valid_manifest(directory: Path, tmp_path: Path) -> None:
    for model in (
        chosen(directory),
        chosen(None, "org/name"),
        chosen(None, "org/name", COMMIT),
        chosen(directory, "org/name", COMMIT),
    ):
        document = written(model, tmp_path / "m.json")
        assert document["metadata"]["created_at"] == NOW
        assert document["runtime"]["execution"]["backend"] == "reference"


def test_the_name_is_made_of_the_model(directory: Path) -> None:
    assert chosen(directory).manifest_name == "my-llama"
    assert chosen(None, "org/Qwen3-8B").manifest_name == "qwen3-8b"
    assert chosen(None, "org/...").manifest_name == "model"
    inner = write_model(directory.parent / "tiny" / "model")
    assert chosen(inner).manifest_name == "tiny-model"


def test_the_path_is_relative_where_both_move_together(directory: Path, tmp_path: Path) -> None:
    near = written(chosen(directory), tmp_path / "m.json")
    far = written(chosen(directory), directory / "m.json")
    (tmp_path / "elsewhere").mkdir()
    other = written(chosen(directory), tmp_path / "elsewhere" / "m.json")
    paths = [each["model"]["weights"]["source"]["local_path"] for each in (near, far, other)]
    assert paths == ["models/My Llama", str(directory), str(directory)]


@pytest.mark.parametrize(
    ("context", "length", "most"), [(64, 64, 16), (2, 2, 1), (1 << 20, 2048, 32), (None, None, 32)]
)
def test_the_first_run_fits_the_model_and_is_short(
    directory: Path, tmp_path: Path, context: int | None, length: int | None, most: int
) -> None:
    config = {} if context is None else {"max_position_embeddings": context}
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    document = written(chosen(directory), tmp_path / "m.json")
    assert document["vllm"]["engine_args"].get("max_model_len") == length
    assert document["inference"]["requests"][0]["sampling"]["max_tokens"] == most


def test_a_model_without_a_chat_template_gets_plain_prompts(
    directory: Path, tmp_path: Path
) -> None:
    document = written(chosen(directory), tmp_path / "m.json")
    assert {each["kind"] for each in document["inference"]["requests"]} == {"chat"}
    (directory / "chat_template.jinja").unlink()
    document = written(chosen(directory), tmp_path / "m.json")
    assert {each["kind"] for each in document["inference"]["requests"]} == {"completion"}
    (directory / "tokenizer_config.json").write_text('{"chat_template":"x"}', encoding="utf-8")
    document = written(chosen(directory), tmp_path / "m.json")
    assert {each["kind"] for each in document["inference"]["requests"]} == {"chat"}


def test_a_repository_lists_the_files_of_its_directory(directory: Path, tmp_path: Path) -> None:
    (directory / "notes.txt").write_text("x", encoding="utf-8")
    document = written(chosen(directory, "org/name", COMMIT), tmp_path / "m.json")
    model = document["model"]
    assert [each["path"] for each in model["config"]["files"]] == [
        "config.json",
        "generation_config.json",
    ]
    assert model["chat_template"] == {"file": {"path": "chat_template.jinja"}}
    assert "notes.txt" not in json.dumps(model)


@pytest.mark.parametrize("text", ["{", "[1", '{"a":NaN}'])
def test_a_broken_config_is_refused(directory: Path, tmp_path: Path, text: str) -> None:
    (directory / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError, match="not valid JSON"):
        written(chosen(directory), tmp_path / "m.json")


def test_no_model_is_none_to_take(tmp_path: Path) -> None:
    for name in ("nothing", "."):
        with pytest.raises(InvalidInputError, match="not the directory of a model"):
            chosen(tmp_path / name)
    with pytest.raises(InvalidInputError, match="no model is named"):
        chosen(None)
