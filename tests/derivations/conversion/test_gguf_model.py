"""Models of GGUF files: the checkpoint that comes back is the one that went in, and nothing unknown comes along."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from checkpoints import CheckpointShape, encode_numbers, random_tensors
from dis_derivations.artifacts.regular_file import UnreadableWeightsError, UnsupportedWeightsError
from dis_derivations.artifacts.weight_file import WeightFile
from dis_derivations.conversion.gguf_checkpoint import GgufCheckpoint, read_checkpoint
from dis_derivations.conversion.gguf_numbers import row_blocks
from dis_derivations.engines.reference.families import parse_configuration
from dis_store.errors import IntegrityError
from gguf_files import write_gguf

SHAPES = {
    "a llama": CheckpointShape(),
    "a llama whose head is its embedding": CheckpointShape(tied=True),
    "a llama with wide heads": CheckpointShape(head=48),
    "a qwen2": CheckpointShape(family="qwen2", layers=3),
}
SHAPE = CheckpointShape(vocabulary=260, hidden=32, intermediate=32, layers=1)


def checkpoint(path: Path, shape: CheckpointShape = SHAPE, **options: Any) -> GgufCheckpoint:
    write_gguf(path / "m.gguf", shape, **options)
    return read_checkpoint(path / "m.gguf", name="m.gguf")


@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("stored", ["BF16", "F32", "F16"])
def test_a_checkpoint_that_was_converted_comes_back(tmp_path: Path, case: str, stored: str) -> None:
    shape = SHAPES[case]
    found = checkpoint(tmp_path, shape, stored=stored)
    tensors = random_tensors(shape, 1)
    read_into = WeightFile(tmp_path / "m.gguf").read_into
    assert found.model.tensors.keys() == tensors.keys()
    for name, tensor in tensors.items():
        numbers = np.concatenate(list(row_blocks(found.model.tensors[name], read_into)))
        assert numbers.reshape(-1).tolist() == rounded(tensor, stored).reshape(-1).tolist(), name


def rounded(tensor: NDArray[np.float32], stored: str) -> NDArray[np.float64]:
    """Return what a file holds of a tensor: a vector is not rounded there."""
    if tensor.ndim == 1 or stored == "F32":
        return tensor.astype(np.float64)
    if stored == "F16":
        return tensor.astype(np.float16).astype(np.float64)
    bits = np.frombuffer(encode_numbers(tensor, "BF16"), "<u2").astype(np.uint32)
    return (bits << 16).view(np.float32).astype(np.float64)


@pytest.mark.parametrize("case", SHAPES)
def test_the_configuration_means_the_same_to_the_engine(tmp_path: Path, case: str) -> None:
    shape = SHAPES[case]
    # Which token ends an answer is in generation_config.json too, and looked at in its own test.
    assert parse_configuration(checkpoint(tmp_path, shape).config) == parse_configuration(
        {**shape.document(), "head_dim": shape.head or shape.hidden // shape.queries}
    )


def test_a_number_of_single_precision_is_the_decimal_that_was_meant(tmp_path: Path) -> None:
    for written in (1e-5, 1e-6, 0.1, 3.0, 1 / 3):
        changes = {"llama.attention.layer_norm_rms_epsilon": written}
        found = checkpoint(tmp_path, changes=changes).config["rms_norm_eps"]
        assert np.float32(found) == np.float32(written)
        assert len(repr(found)) <= max(len(repr(written)), 11)
        assert written in {found, 1 / 3}


UNKNOWN = {
    "another architecture": ({"general.architecture": "mamba"}, "the architecture 'mamba'"),
    "an adapter": ({"general.type": "adapter"}, "the type 'adapter'"),
    "a part of a model": ({"split.count": 3}, "several files"),
    "experts": ({"llama.expert_count": 8}, "llama.expert_count"),
    "another rotary embedding": ({"llama.rope.scaling.type": "yarn"}, "llama.rope.scaling.type"),
    "a factor of it": ({"llama.rope.scaling.factor": 4.0}, "llama.rope.scaling.factor"),
    "a window": ({"llama.attention.sliding_window": 4096}, "sliding_window"),
    "heads rotated in part": ({"llama.rope.dimension_count": 4}, "rotated in part"),
    "values of another length": ({"llama.attention.value_length": 16}, "another length than keys"),
}
BROKEN = {
    "no layers": ({"llama.block_count": None}, "llama.block_count"),
    "layers without end": ({"llama.block_count": 10**6}, "no number of layers"),
    "no heads": ({"llama.attention.head_count": 0}, "positive integer"),
    "heads for each layer": ({"llama.attention.head_count": [4, 4]}, "positive integer"),
    "heads that do not divide": ({"llama.attention.head_count": 5}, "does not divide"),
    "odd heads": ({"llama.attention.key_length": 7, "llama.attention.value_length": 7}, "even number"),
    "another vocabulary": ({"llama.vocab_size": 5}, "260 rows"),
    "more layers than tensors": ({"llama.block_count": 2}, "blk.1.attn_norm.weight"),
    "another width": ({"llama.feed_forward_length": 64}, "must be [64, 32]"),
    "an epsilon that is a text": ({"llama.attention.layer_norm_rms_epsilon": "1"}, "positive number"),
    "an epsilon of nothing": ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, "positive number"),
    "a name that is a number": ({"general.architecture": 3}, "must be a text"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_is_not_known_is_refused_by_its_name(tmp_path: Path, case: str) -> None:
    changes, words = UNKNOWN[case]
    with pytest.raises(UnsupportedWeightsError, match=words):
        checkpoint(tmp_path, changes=changes)


@pytest.mark.parametrize("case", BROKEN)
def test_what_contradicts_itself_is_refused(tmp_path: Path, case: str) -> None:
    changes, words = BROKEN[case]
    with pytest.raises(UnreadableWeightsError) as refusal:
        checkpoint(tmp_path, changes=changes)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    "name", ["rope_freqs.weight", "blk.0.attn_q.bias", "blk.9.attn_norm.weight"]
)
def test_a_tensor_that_is_left_over_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    extra: Mapping[str, NDArray[np.float32]] = {name: np.ones(32, np.float32)}
    with pytest.raises(UnsupportedWeightsError, match=f"the tensor {name}"):
        checkpoint(tmp_path, extra=extra)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_gguf(tmp_path_factory.mktemp("good") / "m.gguf", SHAPE).read_bytes()


@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 12000), st.binary(min_size=1, max_size=8)), min_size=1, max_size=6
    )
)
def test_a_damaged_file_is_converted_or_refused_and_nothing_else(
    tmp_path: Path, good: bytes, changes: list[tuple[int, bytes]]
) -> None:
    data = bytearray(good)
    for place, content in changes:
        data[place : place + len(content)] = content
    (tmp_path / "m.gguf").write_bytes(data)
    try:
        found = read_checkpoint(tmp_path / "m.gguf", name="m.gguf")
    except (UnreadableWeightsError, UnsupportedWeightsError):
        return
    read_into = WeightFile(tmp_path / "m.gguf").read_into
    for tensor in found.model.tensors.values():
        with contextlib.suppress(IntegrityError):
            assert sum(block.size for block in row_blocks(tensor, read_into))


def test_settings_that_change_nothing_are_taken(tmp_path: Path) -> None:
    changes = {"llama.expert_count": 0, "llama.rope.scaling.type": "none", "llama.vocab_size": 260}
    assert checkpoint(tmp_path, changes=changes).config == checkpoint(tmp_path).config
