"""Weights are read exactly, and what does not fit or is damaged is refused by name."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from checkpoints import (
    CheckpointShape,
    files_of,
    random_tensors,
    write_checkpoint,
    write_safetensors,
    write_weights,
)
from dis_derivations.engines.protocol import Batching
from dis_derivations.engines.reference.checkpoint import Checkpoint
from dis_derivations.engines.reference.engine import open_reference_engine
from dis_store.errors import DisError, IntegrityError, InvalidInputError, UnfitEnvironmentError
from engine_runs import RecordingSink, digest_by_request, greedy_request
from processes import at_once

SHAPE = CheckpointShape(hidden=32, layers=1)


def digest(files: dict[str, Path]) -> dict[str, str]:
    sink = RecordingSink()
    request = greedy_request("r", [3, 1, 4])
    sequences = open_reference_engine(files).generate(
        [request], Batching(1), sink, lambda _progress: None
    )
    return digest_by_request(sequences, sink)


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        ("BF16", [1.0, -2.5, 0.0, 2.0**-133, 3.0e38, 1 + 2.0**-7]),
        ("F16", [1.0, -2.5, 0.0, 2.0**-24, 65504.0, 1 + 2.0**-10]),
        ("F32", [1.0, -2.5, 0.0, 2.0**-149, 3.4e38, 1 + 2.0**-23]),
    ],
)
def test_every_dtype_is_widened_exactly(tmp_path: Path, dtype: str, numbers: list[float]) -> None:
    written = np.array(numbers, dtype=np.float32)
    if dtype == "BF16":
        written = (written.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    write_safetensors(tmp_path / "model.safetensors", {"x": written}, dtype)
    read = np.empty(len(numbers))
    Checkpoint(files_of(tmp_path)).take("x", (len(numbers),)).read(read)
    assert read.tolist() == [float(number) for number in written]


def test_a_sharded_checkpoint_gives_the_bits_of_a_single_file(tmp_path: Path) -> None:
    whole = write_checkpoint(tmp_path / "whole", SHAPE)
    sharded = write_checkpoint(tmp_path / "sharded", CheckpointShape(hidden=32, layers=1, files=3))
    assert "model.safetensors" not in sharded
    assert digest(sharded) == digest(whole)


def test_the_same_numbers_in_a_wider_dtype_give_the_same_bits(tmp_path: Path) -> None:
    narrow = write_checkpoint(tmp_path / "narrow", SHAPE)
    wide = write_checkpoint(tmp_path / "wide", SHAPE)
    rounded = {
        name: (tensor.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        for name, tensor in random_tensors(SHAPE, 1).items()
    }
    write_weights(tmp_path / "narrow", rounded, "BF16")
    write_weights(tmp_path / "wide", rounded, "F32")
    assert digest(narrow) == digest(wide)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "name",
    ["model.embed_tokens.weight", "model.layers.0.mlp.down_proj.weight", "model.norm.weight"],
)
def test_a_number_that_is_not_finite_is_refused(tmp_path: Path, name: str, bad: float) -> None:
    files = write_checkpoint(tmp_path, SHAPE)
    tensors = random_tensors(SHAPE, 1)
    tensors[name].flat[-1] = bad
    write_weights(tmp_path, tensors, "BF16")
    with pytest.raises(IntegrityError, match=name):
        digest(files)


@pytest.mark.parametrize("left", [0.0, 0.5, 0.99])
def test_a_file_that_is_cut_short_after_its_header_was_read_is_damage(
    tmp_path: Path, left: float
) -> None:
    """Of a mapped file, the process would be gone: so it is read in a child, which must end well."""
    files = write_checkpoint(tmp_path, SHAPE)
    path = files["model.safetensors"]
    shape = (SHAPE.vocabulary, SHAPE.hidden)
    names = ("lm_head.weight", "model.embed_tokens.weight")
    first, last = (Checkpoint(files).take(name, shape) for name in names)
    tensor = max(first, last, key=lambda each: each.begin)

    def read() -> None:
        with pytest.raises(IntegrityError, match="is shorter than its header says") as caught:
            tensor.read(np.empty(shape))
        assert str(path) in caught.value.what
        with pytest.raises(IntegrityError, match="is shorter than its header says"):
            tensor.rows(np.array([0, shape[0] - 1], dtype=np.intp))

    os.truncate(path, int(path.stat().st_size * left))
    at_once([read])


def test_the_rows_of_a_matrix_are_those_that_were_asked_for(tmp_path: Path) -> None:
    files = write_checkpoint(tmp_path, SHAPE)
    shape = (SHAPE.vocabulary, SHAPE.hidden)
    tensor = Checkpoint(files).take("model.embed_tokens.weight", shape)
    whole = np.empty(shape)
    tensor.read(whole)
    wanted = np.array([7, 0, 7, shape[0] - 1], dtype=np.intp)
    assert np.array_equal(tensor.rows(wanted), whole[wanted])
    with pytest.raises(IndexError):
        tensor.rows(np.array([shape[0]], dtype=np.intp))


def refusal(directory: Path, tensors: dict[str, np.ndarray], dtype: str = "F32") -> DisError:
    files = write_checkpoint(directory, SHAPE)
    write_weights(directory, tensors, dtype)
    with pytest.raises(DisError) as caught:
        open_reference_engine(files)
    return caught.value


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    tensors = random_tensors(SHAPE, 1)
    del tensors["model.layers.0.self_attn.k_proj.weight"]
    error = refusal(tmp_path, tensors)
    assert isinstance(error, InvalidInputError)
    assert "model.layers.0.self_attn.k_proj.weight" in error.what


def test_a_tensor_of_another_shape_is_named(tmp_path: Path) -> None:
    tensors = random_tensors(SHAPE, 1)
    tensors["model.norm.weight"] = tensors["model.norm.weight"][:-1]
    error = refusal(tmp_path, tensors)
    assert isinstance(error, InvalidInputError)
    assert "model.norm.weight" in error.what


def test_a_tensor_that_the_model_has_no_use_for_is_named(tmp_path: Path) -> None:
    tensors = random_tensors(SHAPE, 1)
    tensors["model.layers.0.self_attn.q_norm.weight"] = np.ones(8, dtype=np.float32)
    error = refusal(tmp_path, tensors)
    assert isinstance(error, UnfitEnvironmentError)
    assert "model.layers.0.self_attn.q_norm.weight" in error.what


def test_another_dtype_is_refused(tmp_path: Path) -> None:
    files = write_checkpoint(tmp_path, CheckpointShape(hidden=32, layers=1, dtype="F32"))
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes().replace(b'"F32"', b'"I32"'))
    with pytest.raises(UnfitEnvironmentError, match="does not read I32 weights"):
        open_reference_engine(files)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    files = write_checkpoint(tmp_path, CheckpointShape(hidden=32, layers=1, files=2))
    del files["model-00002-of-00002.safetensors"]
    with pytest.raises(InvalidInputError, match="model-00002-of-00002"):
        open_reference_engine(files)


@pytest.mark.parametrize("index", [[], {}, {"weight_map": []}, {"weight_map": {"x": 1}}])
def test_a_malformed_index_is_refused(tmp_path: Path, index: object) -> None:
    files = write_checkpoint(tmp_path, CheckpointShape(hidden=32, layers=1, files=2))
    files["model.safetensors.index.json"].write_text(json.dumps(index))
    with pytest.raises(InvalidInputError, match="weight_map"):
        open_reference_engine(files)


def test_a_model_without_weights_is_refused(tmp_path: Path) -> None:
    files = write_checkpoint(tmp_path, SHAPE)
    del files["model.safetensors"]
    with pytest.raises(InvalidInputError, match="neither"):
        open_reference_engine(files)


def test_what_old_checkpoints_hold_for_nothing_is_left_out(tmp_path: Path) -> None:
    files = write_checkpoint(tmp_path, SHAPE)
    before = digest(files)
    tensors = random_tensors(SHAPE, 1)
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(4, dtype=np.float32)
    write_weights(tmp_path, tensors, "BF16")
    assert digest(files) == before
