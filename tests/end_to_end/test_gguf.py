"""A GGUF file through the command: converted once, the same everywhere, or refused before any work."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkpoints import CheckpointShape
from dis_store.errors import InvalidInputError
from dis_store.tensors.safetensors_header import read_from
from gguf_files import write_gguf
from tiny_runs import write_manifest

FILES = 'model.weights.files=[{"path":"tiny.gguf"}]'
LOGITS = 'capture.logits={"enabled":true,"scope":"full","dtype":"float64","capture_decode":true}'
GENERATING = ("--set", FILES, "--set", LOGITS)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with a manifest, a checkpoint, and the same weights as a GGUF file."""
    directory = tmp_path / "place"
    write_manifest(directory)
    write_gguf(directory / "model/tiny.gguf", CheckpointShape(), template=None)
    return directory


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def results(answer: Any) -> Path:
    """Return the results that the bundle of a run refers to."""
    bundle = Path(answer["outputs"]["bundle"]["path"])
    digest = json.loads((bundle / "bundle.json").read_bytes())["results"]
    return Path(bundle.parents[1], digest[:2], digest)


def test_a_converted_model_computes_the_bits_of_the_checkpoint_that_it_was_made_from(
    dis: Any, place: Path
) -> None:
    """Vectors alone are single precision in the file, and rounded once; so are those of the checkpoint."""
    original = dis("realize", place / "tiny.json", "--set", LOGITS, "--json").json
    converted = dis("realize", place / "tiny.json", *GENERATING, "--json").json
    one, other = results(original), results(converted)
    assert (one / "tokens.json").read_bytes() == (other / "tokens.json").read_bytes()
    assert (one / "logits.safetensors").read_bytes() == (other / "logits.safetensors").read_bytes()


def test_the_targets_of_a_gguf_file_are_the_file_and_its_conversion(dis: Any, place: Path) -> None:
    config = place / "tiny.json"
    answer = dis("realize", f"{config}#conversion", "--set", FILES, "--json").json
    paths = {name: Path(output["path"]) for name, output in answer["outputs"].items()}
    assert {name: names(path) for name, path in paths.items() if name != "log"} == {
        "weights": ["model.safetensors"],
        "tokenizer": ["tokenizer.json", "tokenizer_config.json"],
        "config": ["config.json", "generation_config.json"],
        "chat_template": [],
    }
    weights = paths["weights"] / "model.safetensors"
    with weights.open("rb") as file:
        header = read_from(file, weights.stat().st_size, name="weights", error=InvalidInputError)
    assert {tensor.dtype for tensor in header.tensors.values()} == {"BF16"}
    fixed = dis("realize", f"{config}#weights", "--set", FILES).stdout.strip()
    assert names(Path(fixed)) == ["tiny.gguf"]
    refused = dis("realize", f"{config}#tokenizer", "--set", FILES, expect=2)
    assert "its targets are weights, dataset, conversion" in refused.stderr


def test_another_file_of_the_same_weights_is_converted_and_not_generated_again(
    dis: Any, place: Path
) -> None:
    """What single precision holds is rounded as the writer of bfloat16 did, so the converted objects are the same."""
    dis("realize", place / "tiny.json", "--set", FILES)
    file = place / "model/tiny.gguf"
    before = file.read_bytes()
    write_gguf(file, CheckpointShape(), template=None, stored="F32")
    assert file.read_bytes() != before
    dis("lock", place / "tiny.json", "--set", FILES, "--update", "model.weight")
    finished = dis("--progress", "plain", "realize", place / "tiny.json", "--set", FILES)
    assert re.findall("^(.*): built in", finished.stderr, re.MULTILINE) == [
        "tiny-conversion",
        "tiny",
    ]


def test_a_rebuilt_conversion_gives_the_same_bits(dis: Any, place: Path) -> None:
    finished = dis(
        "realize", f"{place / 'tiny.json'}#conversion", "--set", FILES, "--rebuild", "--json"
    )
    (rebuild,) = finished.json["rebuilds"]
    assert rebuild["identical"] is True


def test_a_collection_keeps_what_a_run_was_converted_from(dis: Any, place: Path) -> None:
    dis("realize", place / "tiny.json", "--set", FILES, "--name", "kept")
    (place / "model/tiny.gguf").unlink()
    dis("gc")
    again = dis("realize", place / "tiny.json", "--set", FILES, "--rebuild", "--json").json
    assert again["rebuilds"][0]["identical"] is True
    dis("realize", f"{place / 'tiny.json'}#conversion", "--set", FILES, "--rebuild")


def broken(**options: Any) -> Callable[[Path], object]:
    return lambda path: write_gguf(path, CheckpointShape(), **options)


REFUSED: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "an unknown architecture": (
        broken(changes={"general.architecture": "mamba"}),
        5,
        "the architecture 'mamba'",
    ),
    "an unknown pre-tokenizer": (
        broken(pre="tekken"),
        5,
        "the pre-tokenizer 'tekken'",
    ),
    "a scaled rotary embedding": (
        broken(changes={"llama.rope.scaling.type": "yarn"}),
        5,
        "llama.rope.scaling.type",
    ),
    "half a file": (lambda path: os.truncate(path, path.stat().st_size // 2), 2, "truncated"),
    "no file": (lambda path: path.unlink(), 5, "there is no file"),
    "text": (lambda path: path.write_text("not a model"), 2, "does not begin with GGUF"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_cannot_be_converted_is_refused_before_it_is_read(
    dis: Any, place: Path, case: str
) -> None:
    change, code, says = REFUSED[case]
    file = place / "model/tiny.gguf"
    kept = file.read_bytes()
    change(file)
    for command in (("lock",), ("realize",)):
        refused = dis(*command, place / "tiny.json", "--set", FILES, expect=code)
        assert says in refused.stderr
        assert not (place / "tiny.lock.json").exists()
    assert not list((dis.store / "objects").glob("*/*"))
    file.write_bytes(kept)
    dis("realize", place / "tiny.json", "--set", FILES)


def test_a_number_that_is_not_finite_fails_the_conversion(dis: Any, place: Path) -> None:
    file = place / "model/tiny.gguf"
    data = bytearray(file.read_bytes())
    data[-64:] = b"\xff" * 64
    file.write_bytes(data)
    refused = dis("realize", place / "tiny.json", "--set", FILES, expect=4)
    assert "holds a number that is not finite" in refused.stderr


def test_a_damaged_object_is_not_converted(dis: Any, place: Path) -> None:
    dis("realize", f"{place / 'tiny.json'}#weights", "--set", FILES)
    (stored,) = (dis.store / "objects").glob("*/*/tiny.gguf")
    stored.chmod(0o644)
    with stored.open("r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(bytes(8))
    refused = dis("realize", place / "tiny.json", "--set", FILES, expect=4)
    assert "BLAKE3" in refused.stderr


def test_a_directory_with_nothing_but_a_gguf_file_says_how_to_name_it(
    dis: Any, place: Path
) -> None:
    for path in (place / "model").iterdir():
        path.unlink()
    write_gguf(place / "model/tiny.gguf", CheckpointShape(), template=None)
    refused = dis("realize", place / "tiny.json", expect=5)
    assert "tiny.gguf is a GGUF file" in refused.stderr
    assert f"--set '{FILES}'" in refused.stderr
    dis("realize", place / "tiny.json", "--set", FILES)
