"""The closure: a model directory made of references."""

import json
from pathlib import Path

import pytest

from dis_store import Store
from dis_store.errors import InvalidInputError
from tiny_runs import realise


def test_a_closure_is_a_model_directory_that_copies_no_byte(store: Store, config: Path) -> None:
    closure = realise(store, config, target="closure").outputs["out"]
    model = store.object_path(closure) / "model"
    assert {path.name for path in model.iterdir()} == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
    }
    for path in model.iterdir():
        assert path.is_symlink()
        assert not Path(path.readlink()).is_absolute()
        assert (
            path.resolve(strict=True).read_bytes()
            == (config.parent / "model" / path.name).read_bytes()
        )


def test_a_closure_names_the_engine_with_the_settings_that_count(
    store: Store, config: Path
) -> None:
    closure = realise(store, config, "vllm.engine_args.max_model_len=64", target="closure").outputs[
        "out"
    ]
    document = json.loads(store.read_bytes(closure, "closure.json"))
    assert document == {
        "format": 1,
        "engine": {"name": "reference", "numerics": 1, "settings": {"max_model_len": 64}},
    }


def test_a_file_in_two_parts_of_a_model_must_be_the_same_file(
    store: Store, config: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "tokenizer.json").write_bytes((config.parent / "model/tokenizer.json").read_bytes())
    (other / "config.json").write_text("{}", "utf-8")
    source = f'{{"type":"local","local_path":"{other}"}}'
    files = '[{"path":"tokenizer.json"},{"path":"config.json"}]'
    override = f'model.tokenizer={{"source":{source},"files":{files}}}'
    with pytest.raises(InvalidInputError, match=r"config\.json is in both config and tokenizer"):
        realise(store, config, override, target="closure")
