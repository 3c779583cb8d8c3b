"""Reading headers of GGUF files: what is there is read, what lies is refused, whatever it is and at once."""

import resource
import struct
from pathlib import Path

import gguf
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from checkpoints import CheckpointShape
from dis_derivations.artifacts.gguf_header import (
    MAX_HEADER_BYTES,
    decode_gguf_header,
    read_gguf_header,
)
from dis_derivations.artifacts.gguf_types import FORMATS, OTHER_FORMATS
from dis_derivations.artifacts.regular_file import UnreadableWeightsError, UnsupportedWeightsError
from gguf_files import raw_gguf, raw_tensor, raw_value, text_bytes, write_gguf

SHAPE = CheckpointShape(vocabulary=260, hidden=32, intermediate=32, layers=1)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", SHAPE).read_bytes()


def refused(data: bytes, words: str, error: type[Exception] = UnreadableWeightsError) -> None:
    with pytest.raises(error, match=words):
        decode_gguf_header(data[:MAX_HEADER_BYTES], size=len(data), name="m.gguf")


def test_what_the_library_of_the_format_writes_is_read_as_it_reads_it(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", SHAPE, stored="Q4_1")
    header, other = read_gguf_header(path, name="tiny.gguf"), gguf.GGUFReader(path)
    for tensor in other.tensors:
        ours = header.tensors[tensor.name]
        assert ours.format.name == tensor.tensor_type.name
        assert (ours.begin, ours.end - ours.begin) == (tensor.data_offset, tensor.n_bytes)
        assert ours.shape == tuple(reversed(tensor.shape.tolist()))
    fields = {key: field for key, field in other.fields.items() if not key.startswith("GGUF.")}
    assert header.values.keys() == fields.keys()
    for key, field in fields.items():
        contents = field.contents()
        assert header.values[key] == (tuple(contents) if isinstance(contents, list) else contents)
    assert len(header.tensors) == len(other.tensors)


def test_the_sizes_of_formats_are_those_of_the_library() -> None:
    for number, found in FORMATS.items():
        kind = gguf.GGMLQuantizationType(number)
        assert found.name == kind.name
        assert (found.values, found.size) == gguf.GGML_QUANT_SIZES[kind]
    theirs = {kind.value: kind.name for kind in gguf.GGMLQuantizationType}
    assert not OTHER_FORMATS.keys() & FORMATS.keys()
    assert all(theirs.get(number, name) == name for number, name in OTHER_FORMATS.items())


def test_every_kind_of_value_is_read() -> None:
    kinds = {
        0: ("B", 250), 1: ("b", -6), 2: ("H", 65000), 3: ("h", -600), 4: ("I", 2**32 - 1), 5: ("i", -7),
        6: ("f", 0.5), 7: ("?", True), 10: ("Q", 2**60), 11: ("q", -(2**60)), 12: ("d", 0.1),
    }  # fmt: skip
    values = b"".join(
        raw_value(f"v.{kind}", kind, struct.pack(f"<{letter}", value))
        for kind, (letter, value) in kinds.items()
    )
    values += raw_value("v.text", 8, text_bytes("tëxt"))
    values += raw_value("v.list", 9, struct.pack("<IQ3h", 3, 3, 1, -2, 3))
    data = raw_gguf(values, counts=(0, len(kinds) + 2))
    found = decode_gguf_header(data, size=len(data), name="m.gguf").values
    assert found == {
        **{f"v.{kind}": value for kind, (_, value) in kinds.items()},
        "v.text": "tëxt",
        "v.list": (1, -2, 3),
    }


def test_another_alignment_moves_the_tensors() -> None:
    head = raw_gguf(
        raw_value("general.alignment", 4, struct.pack("<I", 64)),
        raw_tensor("t", (8,)),
        counts=(1, 1),
    )
    data = head + bytes(-len(head) % 64) + bytes(32)
    begin = decode_gguf_header(data, size=len(data), name="m.gguf").tensors["t"].begin
    assert begin % 64 == 0
    assert begin == len(data) - 32


ARRAY = struct.pack("<IQ", 9, 1)
LIES = {
    "no magic": (b"GGML" + bytes(40), "begin with GGUF"),
    "a cut header": (raw_gguf()[:20], "truncated"),
    "more tensors than bytes": (raw_gguf(counts=(1000, 0)), "1000 tensors"),
    "more tensors than there may be": (raw_gguf(counts=(2**63, 0)), "are the most"),
    "more values than bytes": (raw_gguf(counts=(0, 60000)), "60000 values"),
    "a text without end": (raw_gguf(struct.pack("<Q", 1000), counts=(0, 1)), "bytes of a text|too short"),
    "an array without end": (
        raw_gguf(raw_value("a", 9, struct.pack("<IQ", 0, 2**62)), counts=(0, 1)), "items of a"),
    "an array that its file cannot hold": (
        raw_gguf(raw_value("a", 9, struct.pack("<IQ", 12, 2**20)), counts=(0, 1)), "items of a"),
    "an array of arrays": (raw_gguf(raw_value("a", 9, ARRAY + ARRAY), counts=(0, 1)), "array of arrays"),
    "a type that there is not": (raw_gguf(raw_value("a", 77, bytes(8)), counts=(0, 1)), "type 77"),
    "an array of a type that there is not": (
        raw_gguf(raw_value("a", 9, struct.pack("<IQ", 13, 1) + bytes(8)), counts=(0, 1)), "type 13"),
    "half a truth": (raw_gguf(raw_value("a", 7, b"\2"), counts=(0, 1)), "neither true nor false"),
    "a value twice": (raw_gguf(raw_value("a", 0, b"1") * 2 + bytes(16), counts=(0, 2)), "twice"),
    "a name that is none": (raw_gguf(raw_value("a\x1b", 0, b"1"), counts=(0, 1)), "a name in it"),
    "a name that is not UTF-8": (
        raw_gguf(struct.pack("<Q", 2) + b"\xff\xfe" + bytes(8), counts=(0, 1)), "UTF-8"),
    "an alignment that is none": (
        raw_gguf(raw_value("general.alignment", 4, struct.pack("<I", 33)), counts=(0, 1)), "alignment is 33"),
    "an alignment of zero": (
        raw_gguf(raw_value("general.alignment", 4, struct.pack("<I", 0)), counts=(0, 1)), "alignment is 0"),
    "an alignment that is a text": (
        raw_gguf(raw_value("general.alignment", 8, text_bytes("32")), counts=(0, 1)), "no uint32"),
    "a tensor of no dimension": (raw_gguf(b"", raw_tensor("t", ()) + bytes(16), counts=(1, 0)), "0 dimensions"),
    "a tensor of five dimensions": (raw_gguf(b"", raw_tensor("t", (1,) * 5), counts=(1, 0)), "5 dimensions"),
    "a tensor without numbers": (raw_gguf(b"", raw_tensor("t", (0,)), counts=(1, 0)), r"shape \[0\]"),
    "a tensor whose size overflows": (
        raw_gguf(b"", raw_tensor("t", (2**33, 2**31)), counts=(1, 0)), "shape"),
    "half a block": (raw_gguf(b"", raw_tensor("t", (33,), kind=8), counts=(1, 0)), "whole Q8_0 blocks"),
    "a tensor beyond the file": (
        raw_gguf(b"", raw_tensor("t", (8,), offset=64), counts=(1, 0), data=bytes(64)), "beyond the file"),
    "a tensor at the end of all numbers": (
        raw_gguf(b"", raw_tensor("t", (8,), offset=2**64 - 1), counts=(1, 0), data=bytes(64)), "beyond"),
    "two tensors at one place": (
        raw_gguf(b"", raw_tensor("t", (8,)) + raw_tensor("u", (8,), offset=16), counts=(2, 0), data=bytes(64)),
        "within another"),
    "a tensor twice": (
        raw_gguf(b"", raw_tensor("t", (8,)) + raw_tensor("t", (8,), offset=32), counts=(2, 0), data=bytes(64)),
        "twice"),
}  # fmt: skip


@pytest.mark.parametrize("case", LIES)
def test_a_header_that_lies_is_refused(case: str) -> None:
    refused(*LIES[case])


def test_what_is_not_known_is_refused_by_its_name() -> None:
    for data, words in (
        (raw_gguf(version=1), "of version 1"),
        (raw_gguf(version=0x03000000), "big-endian"),
        (raw_gguf(b"", raw_tensor("t", (256,), kind=16), counts=(1, 0)), "IQ2_XXS"),
        (raw_gguf(b"", raw_tensor("t", (256,), kind=250), counts=(1, 0)), "number 250"),
    ):
        refused(data, words, UnsupportedWeightsError)


def test_a_header_without_end_is_refused_in_bounded_memory() -> None:
    """Sixteen million texts of no length: as many items as bytes allow, and far more than there may be."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    item = struct.pack("<IQ", 8, 1 << 23)
    data = raw_gguf(raw_value("a", 9, item), counts=(0, 1)) + bytes(MAX_HEADER_BYTES)
    refused(data, "are the most")
    many = raw_value("a%d", 9, struct.pack("<IQ", 0, 1 << 20)) + bytes(1 << 20)
    values = b"".join(many.replace(b"a%d", b"b%02d" % number) for number in range(40))
    refused(raw_gguf(values, counts=(0, 40)), "are the most|text")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 600 * 1024  # KiB


def test_a_header_of_more_than_its_bound_is_refused() -> None:
    data = raw_gguf(
        raw_value("a", 8, struct.pack("<Q", MAX_HEADER_BYTES) + bytes(MAX_HEADER_BYTES)),
        counts=(0, 1),
    )
    refused(data, "too short|more than 64 MiB")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path, words in (
        (tmp_path / "none.gguf", "No such file"),
        (tmp_path, "not a regular file|cannot read"),
    ):
        with pytest.raises(UnreadableWeightsError, match=words):
            read_gguf_header(path, name=path.name)


@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 20000), st.binary(min_size=1, max_size=9)), min_size=1, max_size=4
    )
)
@example(changes=[(8, b"\xff" * 8)])
@example(changes=[(16, b"\xff" * 8)])
def test_a_damaged_header_is_read_or_refused_and_nothing_else(
    good: bytes, changes: list[tuple[int, bytes]]
) -> None:
    data = bytearray(good)
    for place, content in changes:
        data[place : place + len(content)] = content
    try:
        header = decode_gguf_header(bytes(data), size=len(data), name="m.gguf")
    except (UnreadableWeightsError, UnsupportedWeightsError):
        return
    for tensor in header.tensors.values():
        assert 0 < tensor.begin < tensor.end <= len(data)


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(length=st.integers(0, 20000))
def test_a_file_that_ends_early_is_refused(good: bytes, length: int) -> None:
    refused(good[: min(length, len(good) - 1)], "truncated|too short|begin with|beyond the file")
