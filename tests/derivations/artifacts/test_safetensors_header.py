import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dis_derivations.artifacts.safetensors_header import (
    MAX_HEADER_BYTES,
    MAX_SEPARATORS,
    TensorInfo,
    UnreadableWeightsError,
    decode_header,
    read_header,
)
from dis_store.errors import DisError, InvalidInputError
from dis_store.tensors.safetensors_header import MAX_NAME_LENGTH, MAX_RANK, read_from
from safetensors_bytes import one_byte_tensors, safetensors_bytes


def tensor(begin: int, end: int, shape: list[int] | None = None, dtype: str = "U8") -> Any:
    shape = [end - begin] if shape is None else shape
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def written(folder: Path, content: bytes) -> Path:
    path = folder / "model.safetensors"
    path.write_bytes(content)
    return path


def refusal(folder: Path, content: bytes) -> str:
    with pytest.raises(UnreadableWeightsError) as caught:
        read_header(written(folder, content), name="model.safetensors")
    assert "model.safetensors" in str(caught.value)
    return str(caught.value)


def test_tensors_come_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    header = {"a": tensor(4, 8, [1], "F32"), "__metadata__": {"format": "pt"}, "b": tensor(0, 4)}
    content = safetensors_bytes(header, bytes(8))
    found = read_header(written(tmp_path, content))
    assert list(found.tensors) == ["b", "a"]
    assert found.tensors["a"] == TensorInfo("F32", (1,), 4, 8)
    assert found.metadata == {"format": "pt"}
    assert found.data_start == len(content) - 8


def test_scalars_empty_tensors_and_trailing_spaces_are_allowed(tmp_path: Path) -> None:
    header = {"empty": tensor(0, 0, [3, 0]), "scalar": tensor(0, 8, [], "F64")}
    content = safetensors_bytes(json.dumps(header).encode() + b"   ", bytes(8))
    assert read_header(written(tmp_path, content)).tensors["scalar"].shape == ()


def test_tensors_of_less_than_a_byte_a_value_are_counted_in_bits(tmp_path: Path) -> None:
    content = safetensors_bytes({"a": tensor(0, 3, [2, 3], "F4")}, bytes(3))
    assert read_header(written(tmp_path, content)).tensors["a"].end == 3
    assert "fraction" in refusal(
        tmp_path, safetensors_bytes({"a": tensor(0, 2, [3], "F4")}, bytes(2))
    )


def test_empty_tensors_may_lie_at_one_place(tmp_path: Path) -> None:
    header = {"b": tensor(0, 0, [0], "F32"), "a": tensor(0, 0, [0], "U8"), "c": tensor(0, 1)}
    found = read_header(written(tmp_path, safetensors_bytes(header, bytes(1))))
    assert list(found.tensors) == ["a", "b", "c"]


def test_the_longest_name_and_the_highest_rank_are_read(tmp_path: Path) -> None:
    header = {"n" * MAX_NAME_LENGTH: tensor(0, 1, [1] * MAX_RANK)}
    found = read_header(written(tmp_path, safetensors_bytes(header, bytes(1))))
    assert [len(name) for name in found.tensors] == [MAX_NAME_LENGTH]
    assert [len(each.shape) for each in found.tensors.values()] == [MAX_RANK]


@pytest.mark.parametrize(
    ("dtype", "shown"), [("x" * 38, repr("x" * 38)), ("x" * 39, f"'{'x' * 39}…"), (5, "5")]
)
def test_an_unknown_dtype_is_shown_as_long_as_a_line_can_hold(
    tmp_path: Path, dtype: object, shown: str
) -> None:
    header = {"a": {"dtype": dtype, "shape": [1], "data_offsets": [0, 1]}}
    said = refusal(tmp_path, safetensors_bytes(header, bytes(1)))
    assert f"has the dtype {shown}, which safetensors does not have" in said


def test_a_file_that_becomes_shorter_while_it_is_read_is_truncated() -> None:
    content = safetensors_bytes({"a": tensor(0, 4)}, bytes(4))
    with pytest.raises(InvalidInputError, match="it became shorter while it was read"):
        read_from(io.BytesIO(content[:20]), len(content), name="weights")


@pytest.mark.parametrize("length", [0, 3, 7])
def test_a_file_without_room_for_its_header_length_is_truncated(
    tmp_path: Path, length: int
) -> None:
    assert "truncated" in refusal(tmp_path, bytes(length))


def test_every_proper_beginning_of_a_file_is_refused(tmp_path: Path) -> None:
    whole = safetensors_bytes({"a": tensor(0, 4), "b": tensor(4, 6)}, bytes(6))
    read_header(written(tmp_path, whole))
    for length in range(len(whole)):
        assert "truncated" in refusal(tmp_path, whole[:length])


def test_the_truncated_tensor_is_named(tmp_path: Path) -> None:
    content = safetensors_bytes({"a": tensor(0, 4), "long": tensor(4, 60)}, bytes(10))
    assert "tensor 'long' ends at byte 60" in refusal(tmp_path, content)


@pytest.mark.parametrize(
    ("header", "data", "says"),
    [
        ({"a": tensor(0, 4)}, 5, "lying about its data: 1 bytes after the last tensor"),
        ({}, 1, "belong to no tensor"),
        ({"a": tensor(0, 4), "b": tensor(5, 6)}, 6, "tensor 'b' begins at byte 5"),
        ({"a": tensor(0, 4), "b": tensor(3, 6)}, 6, "overlaps"),
        ({"a": tensor(0, 4), "b": tensor(0, 4)}, 4, "overlaps"),
        ({"a": tensor(1, 4)}, 4, "leaves a hole"),
        ({"a": tensor(0, 4, [3])}, 4, "tensor 'a' (U8 [3]) takes 3 bytes"),
        ({"a": tensor(4, 0, [4])}, 4, "span -4"),
        ({"a": tensor(0, 0, [2**53 - 1] * 9)}, 0, "more bytes than any file has"),
        ({"a": tensor(0, 0, [2**53 - 1] * 9 + [0])}, 0, "more bytes than any file has"),
    ],
)
def test_a_header_that_lies_is_refused(
    tmp_path: Path, header: object, data: int, says: str
) -> None:
    assert says in refusal(tmp_path, safetensors_bytes(header, bytes(data)))


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ([], "opening brace"),
        (b" {}", "opening brace"),
        (b"{} x", "not valid JSON"),
        (b"{\xff}", "not UTF-8"),
        (b'{"a":1,"a":1}', "appears twice"),
        ({"a": 1}, "tensor 'a' must have exactly"),
        ({"a": {**tensor(0, 0), "more": 1}}, "must have exactly"),
        ({"a": tensor(0, 0, dtype="F80")}, "tensor 'a' has the dtype 'F80'"),
        ({"a": {"dtype": ["U8"], "shape": [], "data_offsets": [0, 1]}}, "has the dtype ['U8']"),
        ({"a": {"dtype": "U8", "shape": [True], "data_offsets": [0, 1]}}, "a shape"),
        ({"a": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]}}, "a shape"),
        ({"a": {"dtype": "U8", "shape": [1.0], "data_offsets": [0, 1]}}, "a shape"),
        ({"a": {"dtype": "U8", "shape": [0] * 65, "data_offsets": [0, 0]}}, "a shape"),
        ({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1, 2]}}, "data_offsets"),
        ({"a": {"dtype": "U8", "shape": [1], "data_offsets": "01"}}, "data_offsets"),
        ({"__metadata__": {"format": 1}}, "__metadata__"),
        ({"__metadata__": None}, "__metadata__"),
        ({"": tensor(0, 0)}, "name has 0 characters"),
        ({"n" * 1025: tensor(0, 0)}, "name has 1025 characters"),
    ],
)
def test_what_is_no_safetensors_header_is_refused(
    tmp_path: Path, header: object, says: str
) -> None:
    assert says in refusal(tmp_path, safetensors_bytes(header))


def test_an_enormous_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    assert "100 MB" in refusal(tmp_path, (MAX_HEADER_BYTES + 1).to_bytes(8, "little") + b"{")
    assert "100 MB" in refusal(tmp_path, b"\xff" * 64)
    assert "truncated" in refusal(tmp_path, MAX_HEADER_BYTES.to_bytes(8, "little") + b"{}")
    assert "empty header" in refusal(tmp_path, bytes(8))


def test_a_header_of_separators_is_refused_before_it_is_parsed() -> None:
    raw = b'{"a":[' + b"[]," * (MAX_SEPARATORS // 2 + 1) + b"[]]}"
    with pytest.raises(UnreadableWeightsError, match="separators"):
        decode_header(raw, data_size=0, name="model.safetensors")


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.safetensors"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(UnreadableWeightsError, match="regular file"):
            read_header(path)
    with pytest.raises(UnreadableWeightsError, match=r"cannot read .*gone"):
        read_header(tmp_path / "gone")


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_our_errors(content: bytes) -> None:
    for raw in (content, b"{" + content):
        with pytest.raises(DisError):
            decode_header(raw, data_size=1, name="random")


@settings(max_examples=300)
@given(st.data())
def test_a_mutated_file_is_refused_or_still_accounts_for_every_byte(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(one_byte_tensors(["first", "second", "third"]))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, 3))
    path = tmp_path_factory.getbasetemp() / "mutated.safetensors"
    path.write_bytes(content[: len(content) - cut] + data.draw(st.binary(max_size=2)))
    try:
        found = read_header(path)
    except UnreadableWeightsError:
        return
    ends = [info.end for info in found.tensors.values()]
    assert [0, *ends[:-1]] == [info.begin for info in found.tensors.values()]
    assert found.data_start + ends[-1] == path.stat().st_size


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.text(max_size=3) | st.just("U8"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["dtype", "shape", "data_offsets", "__metadata__", "x"]), inner
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=3), json_values, max_size=3), st.integers(0, 9))
def test_any_json_object_is_read_or_refused(header: dict[str, object], size: int) -> None:
    try:
        found = decode_header(json.dumps(header).encode(), data_size=size, name="fuzzed")
    except UnreadableWeightsError:
        return
    assert sum(info.end - info.begin for info in found.tensors.values()) == size
