"""Weights that are cut off, lie about themselves, or run code: refused before, or instead of, being run."""

import json
import pickle
import struct
from collections.abc import Callable
from typing import Any

import pytest

from users import User

WEIGHTS = "model/model.safetensors"
NORM = "model.norm.weight"
HEAD = "lm_head.weight"

Header = dict[str, Any]


def with_header(data: bytes, header: bytes) -> bytes:
    """Return a safetensors file with another header."""
    size = struct.unpack("<Q", data[:8])[0]
    return struct.pack("<Q", len(header)) + header + data[8 + size :]


def edited(data: bytes, edit: Callable[[Header], object]) -> bytes:
    """Return a safetensors file whose header was edited."""
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    edit(header)
    return with_header(data, json.dumps(header).encode())


def field(tensor: str, **fields: Any) -> Callable[[bytes], bytes]:
    """Return a change of one tensor's entry in the header."""
    return lambda data: edited(data, lambda header: header[tensor].update(fields))


def twice(data: bytes) -> bytes:
    """Return a file that has a tensor twice in its header."""
    size = struct.unpack("<Q", data[:8])[0]
    entry = json.dumps({NORM: {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}})
    return with_header(data, data[8 : 8 + size].rstrip()[:-1] + f", {entry[1:]}".encode())


def overlapping(header: Header) -> None:
    """Put a tensor where another one is."""
    start = header["model.embed_tokens.weight"]["data_offsets"][0]
    header[NORM]["data_offsets"] = [start, start + 128]


UNREADABLE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda _: b"", "is truncated: it has 0 bytes"),
    "without a header": (lambda data: data[:4], "is truncated: it has 4 bytes"),
    "cut off in the header": (lambda data: data[:100], "is truncated: its header"),
    "cut off in the data": (lambda data: data[:-1], "is truncated: tensor"),
    "longer than it says": (lambda data: data + b"x", "belong to no tensor"),
    "a header of all memory": (lambda data: b"\xff" * 8 + data[8:], "announce a header of"),
    "a header of a terabyte": (
        lambda data: struct.pack("<Q", 2**40) + data[8:],
        "announce a header of",
    ),
    "no header": (lambda data: struct.pack("<Q", 0) + data[8:], "announce an empty header"),
    "a header that is no JSON": (lambda data: data[:8] + b"x" * 50 + data[58:], "opening brace"),
    "a header that is a list": (lambda data: with_header(data, b"[]"), "opening brace"),
    "a tensor twice": (twice, f"the key '{NORM}' appears twice"),
    "tensors that overlap": (lambda data: edited(data, overlapping), "lying about its data"),
    "a hole": (lambda data: edited(data, lambda header: header.pop(NORM)), "leaves a hole"),
    "another size of numbers": (field(NORM, dtype="F32"), "takes 256 bytes"),
    "an unknown kind of numbers": (field(NORM, dtype="\x1b[2J"), "has the dtype"),
    "a shape beyond memory": (field(NORM, shape=[2**52, 2**52]), "lying about its data"),
    "a negative shape": (field(NORM, shape=[-64]), "must have a shape"),
    "offsets beyond the file": (field(NORM, data_offsets=[2**50, 2**50 + 128]), "lying about"),
    "offsets backwards": (field(NORM, data_offsets=[128, 0]), "lying about its data"),
    "offsets that are no numbers": (
        field(NORM, data_offsets=["0", None]),
        "not a safetensors file",
    ),
    "wrong metadata": (
        lambda data: edited(data, lambda header: header.update(__metadata__={"a": 5})),
        "__metadata__",
    ),
    "a pickle": (lambda _: pickle.dumps({"a": 1}), "by its content it is a pickle"),
    "a zip": (lambda _: b"PK\x03\x04" + bytes(100), "by its content it is a zip archive"),
    "a GGUF file": (lambda _: b"GGUF" + bytes(100), "is a GGUF file"),
    "a pointer of Git LFS": (
        lambda _: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
        "git lfs pull",
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_file_that_is_no_honest_safetensors_is_never_stored(user: User, case: str) -> None:
    change, says = UNREADABLE[case]
    user.alter(WEIGHTS, change)
    code = 5 if case == "a GGUF file" else 2
    user.refused("realize", "tiny.json", code=code, says=("model.safetensors", says))
    user.refused("lock", "tiny.json", code=code, says=says)
    user.recovers()


UNFIT: dict[str, tuple[Callable[[bytes], bytes], int, str]] = {
    "a tensor with another name": (
        lambda data: edited(data, lambda header: header.update({"x": header.pop(NORM)})),
        2,
        f"the weights lack the tensor {NORM}",
    ),
    "a tensor too many": (
        lambda data: edited(
            data,
            lambda header: header.update(
                {"x\x1b[2J": {"dtype": "BF16", "shape": [0], "data_offsets": [0, 0]}}
            ),
        ),
        5,
        "has no use for the tensor x\\x1b[2J",
    ),
    "a tensor of another shape": (
        field(NORM, shape=[32, 2]),
        2,
        f"the tensor {NORM} does not fit config.json",
    ),
    "whole numbers": (field(NORM, dtype="I16"), 5, "does not read I16 weights"),
    "a number that is none": (lambda data: data[:-2] + b"\xc0\x7f", 4, f"{HEAD} holds a number"),
    "an infinite number": (lambda data: data[:-2] + b"\x80\xff", 4, f"{HEAD} holds a number"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_weights_that_the_engine_cannot_run_are_refused_by_tensor(user: User, case: str) -> None:
    change, code, says = UNFIT[case]
    user.alter(WEIGHTS, change)
    user.refused("realize", "tiny.json", code=code, says=says)
    user.recovers()


@pytest.mark.parametrize(
    ("block", "name", "says"),
    [
        ("weights", "pytorch_model.bin", "files that end in .bin hold pickles"),
        ("weights", "model.pt", "files that end in .pt hold pickles"),
        ("weights", "$(id)'.ckpt", "torch.load('FILE'"),
        ("tokenizer", "tokenizer.pkl", "files that end in .pkl hold pickles"),
        ("tokenizer", "tokenizer.json", "by its content it is a pickle"),
        ("config", "config.json", "by its content it is a pickle"),
    ],
)
def test_a_pickle_is_refused_by_name_and_by_content(
    user: User, block: str, name: str, says: str
) -> None:
    user.write(f"model/{name}", pickle.dumps({"a": 1}))
    user.edit({f"model.{block}.files": [{"path": name}]})
    outcome = user.dis("realize", "tiny.json")
    if name == "config.json" and "not valid JSON" in outcome.err:
        says = "byte 0x80 is not UTF-8"
    user.refused("realize", "tiny.json", says=(name, says))
    user.recovers()


def test_a_pickle_beside_the_weights_is_left_alone(user: User) -> None:
    user.write("model/pytorch_model.bin", pickle.dumps({"a": 1}))
    user.write("model/modeling.py", "raise SystemExit")
    bundle = user.does("realize", "tiny.json").out
    user.path("model/pytorch_model.bin").unlink()
    user.path("model/modeling.py").unlink()
    assert user.does("realize", "tiny.json").out == bundle


def test_a_model_with_nothing_but_a_pickle_says_why_it_is_not_taken(user: User) -> None:
    user.path(WEIGHTS).unlink()
    user.write("model/pytorch_model.bin", pickle.dumps({"a": 1}))
    says = "pytorch_model.bin may be pickled weights, which dis does not load"
    user.refused("realize", "tiny.json", code=5, says=says)
    user.recovers()
