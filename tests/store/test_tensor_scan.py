"""Tensors are found in any safetensors file, and nothing else has any."""

import json
import subprocess
import sys
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dis_store import tensor_set_digest
from dis_store.tensors.safetensors_header import MAX_HEADER_BYTES
from dis_store.tensors.tensor_scan import MAX_SCANNED_HEADER_BYTES, TensorScan
from safetensors_bytes import one_byte_tensors, safetensors_bytes
from tensor_layouts import NAMES, TENSOR_SETS, Raws, expected, file_of, found, layouts, scanned

LENGTHS = st.lists(st.integers(1, 40), max_size=12)


@given(TENSOR_SETS, st.data())
def test_every_tensor_is_found_wherever_it_lies(tensors: Raws, data: st.DataObject) -> None:
    for layout in (data.draw(layouts(tensors)), data.draw(layouts(tensors))):
        tensors_found = [
            each for content in layout for each in scanned(content, data.draw(LENGTHS))
        ]
        assert found(tensors_found) == expected(tensors)
        assert len(tensors_found) == len(tensors)


@given(TENSOR_SETS, st.data())
def test_the_same_tensors_have_one_digest_in_any_shards(tensors: Raws, data: st.DataObject) -> None:
    one, other = (data.draw(layouts(tensors)) for _ in range(2))
    digests = {
        tensor_set_digest(each for content in layout for each in scanned(content))
        for layout in (one, other, [*one, *other])
    }
    assert len(digests) == 1


@given(TENSOR_SETS.filter(bool), st.data())
def test_other_names_types_shapes_or_bytes_have_another_digest(
    tensors: Raws, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(tensors)))
    other = dict(tensors)
    raw = other.pop(name)
    changed = data.draw(NAMES.filter(lambda new: new not in tensors))
    before = tensor_set_digest(scanned(file_of(tensors)))
    assert tensor_set_digest(scanned(file_of(other))) != before
    assert tensor_set_digest(scanned(file_of({**other, changed: raw}))) != before
    reshaped = type(raw)(raw.dtype, (1, *raw.shape), raw.data)
    assert tensor_set_digest(scanned(file_of({**other, name: reshaped}))) != before


@given(TENSOR_SETS, st.data())
def test_tensors_cover_the_data_without_a_hole(tensors: Raws, data: st.DataObject) -> None:
    for content in data.draw(layouts(tensors)):
        start = 8 + int.from_bytes(content[:8], "little")
        position = start
        for each in scanned(content):
            assert each.offset == position
            position += each.length
        assert position == len(content)


@given(TENSOR_SETS, st.data())
def test_a_flipped_bit_of_data_changes_exactly_one_tensor(
    tensors: Raws, data: st.DataObject
) -> None:
    content = bytearray(file_of(tensors))
    start = 8 + int.from_bytes(content[:8], "little")
    if start == len(content):
        return
    before = scanned(bytes(content))
    place = data.draw(st.integers(start, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    changed = [one for one, two in zip(before, scanned(bytes(content)), strict=True) if one != two]
    assert len(changed) == 1
    assert changed[0].offset <= place < changed[0].offset + changed[0].length


@given(TENSOR_SETS.filter(bool), st.integers(1, 5))
def test_a_file_that_is_cut_or_goes_on_has_no_tensors(tensors: Raws, amount: int) -> None:
    content = file_of(tensors)
    assert scanned(content + b"x" * amount) == ()
    if len(content) - 8 - int.from_bytes(content[:8], "little") >= amount:
        assert scanned(content[:-amount]) == ()


@given(st.binary(max_size=200), LENGTHS)
def test_any_bytes_are_taken(content: bytes, pieces: list[int]) -> None:
    scanned(content, pieces)
    scanned(len(content).to_bytes(8, "little") + b"{" + content, pieces)


@settings(max_examples=300)
@given(st.data())
def test_a_mutated_file_has_no_tensors_or_accounts_for_every_byte(data: st.DataObject) -> None:
    content = bytearray(one_byte_tensors(["first", "second", "third"]))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    tensors = scanned(bytes(content))
    assert not tensors or tensors[-1].offset + tensors[-1].length == len(content)


def tensor(begin: int, end: int, shape: list[int] | None = None, dtype: str = "U8") -> Any:
    shape = [end - begin] if shape is None else shape
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


HOSTILE = {
    "overlap": safetensors_bytes({"a": tensor(0, 4), "b": tensor(2, 6)}, bytes(6)),
    "hole": safetensors_bytes({"a": tensor(0, 2), "b": tensor(4, 6)}, bytes(6)),
    "hole before": safetensors_bytes({"a": tensor(2, 4)}, bytes(4)),
    "bytes after": safetensors_bytes({"a": tensor(0, 2)}, bytes(4)),
    "lying shape": safetensors_bytes({"a": tensor(0, 4, [3])}, bytes(4)),
    "beyond the end": safetensors_bytes({"a": tensor(0, 2**40)}, bytes(4)),
    "huge": safetensors_bytes({"a": tensor(0, 4, [2**53 - 1] * 3)}, bytes(4)),
    "huger": safetensors_bytes(b'{"a":{"dtype":"U8","shape":[1' + b"0" * 9999 + b"]}}"),
    "negative": safetensors_bytes({"a": tensor(-4, 0)}, bytes(4)),
    "backwards": safetensors_bytes({"a": tensor(4, 0, [0])}, bytes(4)),
    "twice": safetensors_bytes(
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
        b'"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}',
        bytes(2),
    ),
    "deep": safetensors_bytes(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "deep and open": safetensors_bytes(b'{"a":' + b"[" * 1_000_000),
    "100 MB claimed": MAX_HEADER_BYTES.to_bytes(8, "little") + b"{" + bytes(1000),
    "too much claimed": (2**64 - 1).to_bytes(8, "little") + b"{",
    "nothing claimed": bytes(8) + b"{",
    "half a character": safetensors_bytes(b'{"\\ud800":{}}'),
    "no text": safetensors_bytes(b'{"\xff":{}}'),
    "unknown type": safetensors_bytes({"a": tensor(0, 1, dtype="F1")}, bytes(1)),
    "cut": safetensors_bytes({"a": tensor(0, 9)}, bytes(9))[:-1],
    "empty": b"",
    "short": b"\x02\x00\x00",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_what_lies_has_no_tensors_and_costs_little(content: bytes) -> None:
    tracemalloc.start()
    assert scanned(content) == ()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * len(content) + (1 << 16)


def test_a_header_that_is_claimed_takes_no_more_memory_than_what_came() -> None:
    scan = TensorScan()
    chunk = bytes(1 << 20)
    tracemalloc.start()
    scan.update(MAX_SCANNED_HEADER_BYTES.to_bytes(8, "little") + b"{")
    _, claimed = tracemalloc.get_traced_memory()
    for _ in range(64):
        scan.update(chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert claimed < 1 << 16
    assert scan.over
    assert peak < 6 * MAX_SCANNED_HEADER_BYTES


def test_the_most_expensive_header_stays_within_bounds() -> None:
    code = """if True:
        import resource
        from dis_store.tensors.tensor_scan import MAX_SCANNED_HEADER_BYTES, TensorScan
        def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        before = peak()
        escapes = (MAX_SCANNED_HEADER_BYTES - 100) // 6
        raw = b'{"__metadata__":{"a":"' + b"\\\\u4e2d" * escapes + b'"}}'
        scan = TensorScan()
        scan.update(len(raw).to_bytes(8, "little") + raw)
        assert not scan.over
        print(peak() - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, check=True,
        capture_output=True,
    )  # fmt: skip
    assert int(done.stdout) << 10 < 48 * MAX_SCANNED_HEADER_BYTES


def test_a_longer_header_than_is_looked_into_is_no_error() -> None:
    padded = json.dumps({"a": tensor(0, 1)}).encode().ljust(MAX_SCANNED_HEADER_BYTES + 1)
    content = safetensors_bytes(padded, b"x")
    assert scanned(content) == ()
    scan = TensorScan(MAX_HEADER_BYTES)
    scan.update(content)
    assert [each.name for each in scan.finish()] == ["a"]


def test_a_header_is_looked_into_up_to_the_longest_that_is_allowed() -> None:
    content = safetensors_bytes({"a": tensor(0, 1)}, b"x")
    length = int.from_bytes(content[:8], "little")
    for longest, count in ((length, 1), (length - 1, 0)):
        scan = TensorScan(longest)
        scan.update(content)
        assert len(scan.finish()) == count
