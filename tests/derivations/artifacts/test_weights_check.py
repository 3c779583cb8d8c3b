import io
import json
import pickle
import tarfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints import CheckpointShape
from dis_derivations.artifacts.pickle_content import HEAD_BYTES
from dis_derivations.artifacts.regular_file import UnreadableWeightsError, UnsupportedWeightsError
from dis_derivations.artifacts.shard_index import InvalidIndexError
from dis_derivations.artifacts.weights_check import (
    UnsafeWeightsError,
    check_checkpoint,
    check_weight_file,
)
from dis_store.errors import DisError, InvalidInputError
from gguf_files import raw_gguf, write_gguf
from safetensors_bytes import one_byte_tensors


class Payload:
    """Unpickling it would run a command."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return (os.system, ("echo never",))


def zipped(name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, b"x")
    return buffer.getvalue()


def tarred() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("pickle"))
    return buffer.getvalue()


def objects() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], dtype=object))
    return buffer.getvalue()


def check(folder: Path, name: str, content: bytes, *, allow_remote_code: bool = False) -> None:
    source = folder / "source"
    source.write_bytes(content)
    check_weight_file(name, source, allow_remote_code=allow_remote_code)


PICKLES = {
    **{f"protocol {number}": pickle.dumps(Payload(), number) for number in range(6)},
    "broken after the call": pickle.dumps(Payload(), 0)[:-1] + b"\xff",
    "late call": b"(lp0\n" + b"I1\na" * HEAD_BYTES + pickle.dumps(Payload(), 0),
    "old object": b"(S'echo never'\nios\nsystem\n.",
    "torch zip": zipped("archive/data.pkl"),
    "other zip": zipped("weights.npy"),
    "zip at the end": b"#!/bin/sh\n" + zipped("a"),
    "torch legacy": pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps({}, 2),
    "tar": tarred(),
    "joblib zlib": zlib.compress(pickle.dumps(Payload())),
    "joblib old": b"ZF0x1                 " + zlib.compress(b""),
    "numpy objects": objects(),
}


@pytest.mark.parametrize("content", PICKLES.values(), ids=PICKLES.keys())
@pytest.mark.parametrize("name", ["model.safetensors", "weights", "notes.txt", "model.onnx"])
def test_a_pickle_is_refused_whatever_its_name(tmp_path: Path, name: str, content: bytes) -> None:
    with pytest.raises(UnsafeWeightsError, match=f"{name} is refused: by its content") as caught:
        check(tmp_path, name, content)
    assert caught.value.hint
    assert "safetensors.torch import save_file" in caught.value.hint


@pytest.mark.parametrize(
    "name",
    ["pytorch_model.bin", "a.pt", "a.PTH", "a.ckpt", "a.pkl", "a.pickle", "a.joblib", "a.bin "],
)
def test_a_name_of_pickles_is_refused_whatever_its_content(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsafeWeightsError, match="hold pickles"):
        check(tmp_path, name, one_byte_tensors(["a"]))


def test_the_suggested_command_holds_no_name_that_a_shell_would_read(tmp_path: Path) -> None:
    with pytest.raises(UnsafeWeightsError) as caught:
        check(tmp_path, "$(echo never)'\".bin", b"")
    assert "never" not in str(caught.value.hint)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.safetensors", one_byte_tensors(["a"])),
        ("README.md", b"(A model.)\n"),
        ("vocab.txt", b"cat\ncow\ncrab\n"),
        ("merges.txt", b"#version: 0.2\ni n\nt h\n"),
        ("LICENSE", b""),
        ("plain.npy", b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False}"),
        ("config.json", b'{"model_type": "llama"}'),
        ("model.safetensors.index.json", b'{"weight_map": {"a": "m-1.safetensors"}}'),
    ],
)
def test_files_that_run_nothing_pass(tmp_path: Path, name: str, content: bytes) -> None:
    check(tmp_path, name, content)


def test_a_header_length_that_looks_like_a_pickle_is_no_pickle(tmp_path: Path) -> None:
    content = one_byte_tensors(["a"])
    padding = b" " * (0x0280 - (len(content) - 9))
    content = (0x0280).to_bytes(8, "little") + content[8:-1] + padding + content[-1:]
    assert content.startswith(b"\x80\x02")
    check(tmp_path, "model.safetensors", content)


@pytest.mark.parametrize("content", [b"", b"nothing", one_byte_tensors(["a", "b"])[:-1]])
def test_a_safetensors_file_that_does_not_parse_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UnreadableWeightsError, match=r"model\.safetensors is"):
        check(tmp_path, "model.safetensors", content)


def test_a_pointer_in_place_of_a_file_is_explained(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"
    with pytest.raises(UnreadableWeightsError, match="Git LFS pointer") as caught:
        check(tmp_path, "model.safetensors", pointer)
    assert caught.value.hint == "fetch it: git lfs pull"


def test_a_gguf_file_under_another_name_is_refused_with_the_way_to_use_it(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedWeightsError, match=r"ends in \.gguf") as caught:
        check(tmp_path, "m.safetensors", b"GGUF\3")
    assert caught.value.exit_code == 5


def test_a_gguf_file_is_taken_when_it_can_be_converted(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", CheckpointShape(hidden=32, intermediate=32, layers=1))
    check_weight_file("m.gguf", path)
    check_checkpoint({"m.gguf": path})


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b"", UnreadableWeightsError, "truncated"),
        (b"GGUF" + bytes(60), UnsupportedWeightsError, "version 0"),
        (raw_gguf(), UnsupportedWeightsError, "the architecture None"),
    ],
)
def test_a_gguf_file_that_cannot_be_converted_is_refused(
    tmp_path: Path, content: bytes, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        check(tmp_path, "M.GGUF", content)


def test_a_gguf_file_among_others_is_refused(tmp_path: Path) -> None:
    files = dict.fromkeys(("a-00001-of-00002.gguf", "a-00002-of-00002.gguf"), tmp_path)
    with pytest.raises(UnsupportedWeightsError, match="one of 2 files") as caught:
        check_checkpoint(files)
    assert "--merge" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("modeling_mine.py", b"print()"),
        ("config.json", b'{"auto_map": {"AutoModel": "mine.Model"}}'),
        ("config.json", b'{"vision_config": [{"auto_map": {}}]}'),
        ("tokenizer_config.json", b'{"auto_map": {}}'),
    ],
)
def test_code_is_refused_unless_it_is_allowed(tmp_path: Path, name: str, content: bytes) -> None:
    with pytest.raises(UnsafeWeightsError, match=f"{name} is refused") as caught:
        check(tmp_path, name, content)
    assert "trust_remote_code" in str(caught.value.hint)
    check(tmp_path, name, content, allow_remote_code=True)


@pytest.mark.parametrize(
    "shard",
    [
        *("../m.safetensors", "/m.safetensors", "a/m.safetensors", "a\\m.safetensors"),
        *(".safetensors", "m\n.safetensors", "", "m.bin", 1),
    ],
)
def test_an_index_names_plain_safetensors_files_only(tmp_path: Path, shard: object) -> None:
    content = json.dumps({"weight_map": {"a": shard}}).encode()
    with pytest.raises(InvalidIndexError, match="puts tensor 'a' into"):
        check(tmp_path, "model.safetensors.index.json", content)


@pytest.mark.parametrize("content", [b"{}", b"[]", b'{"weight_map": []}', b"{", b""])
def test_what_is_no_index_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InvalidIndexError, match="index"):
        check(tmp_path, "model.safetensors.index.json", content)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"cannot read m\.safetensors"):
        check_weight_file("m.safetensors", tmp_path / "gone")


@given(st.binary(max_size=300), st.sampled_from(["a", "a.safetensors", "config.json"]))
def test_any_bytes_pass_or_are_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    try:
        check(tmp_path_factory.getbasetemp(), name, content)
    except DisError as error:
        assert name in error.what  # noqa: PT017 - passing is right too
