import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from dis_derivations.artifacts.shard_index import InvalidIndexError
from dis_derivations.artifacts.weights_check import check_checkpoint
from safetensors_bytes import one_byte_tensors

INDEX = "model.safetensors.index.json"


def checkpoint(
    folder: Path, shards: Mapping[str, list[str]], weight_map: Mapping[str, str] | None
) -> dict[str, Path]:
    contents = {name: one_byte_tensors(tensors) for name, tensors in shards.items()}
    if weight_map is not None:
        contents[INDEX] = json.dumps({"weight_map": weight_map}).encode()
    files = {}
    for number, (name, content) in enumerate(contents.items()):
        files[name] = folder / f"blob-{number}"
        files[name].write_bytes(content)
    return files


ONE, TWO = "m-1.safetensors", "m-2.safetensors"


def test_shards_that_agree_with_their_index_pass(tmp_path: Path) -> None:
    check_checkpoint(
        checkpoint(tmp_path, {ONE: ["a", "b"], TWO: ["c"]}, {"a": ONE, "b": ONE, "c": TWO})
    )


def test_a_single_file_needs_no_index(tmp_path: Path) -> None:
    check_checkpoint(checkpoint(tmp_path, {"model.safetensors": ["a"]}, None))


def test_a_file_beside_the_index_with_other_tensors_passes(tmp_path: Path) -> None:
    check_checkpoint(checkpoint(tmp_path, {ONE: ["a"], "other.safetensors": ["x"]}, {"a": ONE}))


def test_folders_are_checkpoints_of_their_own(tmp_path: Path) -> None:
    files = checkpoint(tmp_path, {"x/m.safetensors": ["a"], "y/m.safetensors": ["a"]}, None)
    check_checkpoint(files)


@pytest.mark.parametrize(
    ("shards", "weight_map", "says"),
    [
        ({ONE: ["a"]}, {"a": ONE, "b": TWO}, "names the file m-2.safetensors, which is missing"),
        ({ONE: ["a"], TWO: ["b"]}, {"a": ONE, "b": ONE}, "puts tensor 'b' into m-1"),
        ({ONE: ["a", "b"]}, {"a": ONE}, "holds tensor 'b', which"),
        ({ONE: ["a"], TWO: ["a"]}, {"a": ONE}, "'a' is both in m-1.safetensors and in m-2"),
        ({ONE: ["a"], TWO: ["a"]}, None, "'a' is both in"),
    ],
)
def test_files_that_disagree_are_refused(
    tmp_path: Path, shards: Mapping[str, list[str]], weight_map: Mapping[str, str], says: str
) -> None:
    with pytest.raises(InvalidIndexError, match=says):
        check_checkpoint(checkpoint(tmp_path, shards, weight_map))
