"""Weights are compared by their tensors, and read only where these differ."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dis_derivations.comparison.tensors import tensor_file
from dis_derivations.comparison.text_layout import WIDTH
from dis_derivations.comparison.weights.changes import percent, weight_changes
from dis_derivations.comparison.weights.diff import diff_weights, weights_side
from dis_derivations.comparison.weights.rendering import render_weights
from dis_derivations.comparison.weights.report import WeightsReport
from dis_derivations.comparison.weights.weight_set import Weights
from dis_store import Digest, InvalidInputError, Store
from tensor_layouts import NAMES, TENSOR_SETS, Raw, Raws, file_of, layouts
from trees import Blob, write_tree

ONE, TWO = Raw("U8", (3,), b"one"), Raw("U8", (3,), b"two")
SMALL = Raw("I16", (2,), b"abcd")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(tmp_path_factory.mktemp("weights") / "store") as opened:
        yield opened


def add(store: Store, files: dict[str, bytes]) -> Digest:
    return write_tree(store, {path: Blob(data) for path, data in files.items()})


def compare(store: Store, a: Digest, b: Digest, below: str = "") -> WeightsReport:
    sides = [weights_side(store, each, below=below, ref="it") for each in (a, b)]
    return diff_weights(*sides)


def compared(store: Store, a: dict[str, Raw], b: dict[str, Raw]) -> WeightsReport:
    """Compare two files of tensors."""
    left, right = (add(store, {"model": file_of(tensors)}) for tensors in (a, b))
    return compare(store, left, right)


def numbers(values: object, dtype: str) -> Raw:
    """Return a tensor of numbers; BF16 by its bits."""
    array = np.asarray(values).astype({"F16": "<f2", "F64": "<f8", "BF16": "<u2"}.get(dtype, "<f4"))
    return Raw(dtype, array.shape, array.tobytes())


def test_a_shard_more_or_less_is_no_difference(store: Store) -> None:
    a = add(store, {"model": file_of({"a": ONE, "b": TWO})})
    b = add(store, {"model-1": file_of({"b": TWO}), "model-2": file_of({"a": ONE})})
    report = compare(store, a, b)
    assert (report.same, report.same_files) == (True, False)
    assert report.changes.arrangement == ("shards",)
    assert report.changes.statement == "same weights, other shards"
    assert (report.answer(strict=False), report.answer(strict=True)) == (True, False)


@pytest.mark.parametrize(
    ("file", "path", "arrangement"),
    [
        (file_of({"a": ONE, "b": TWO}), "renamed", ("file names",)),
        (file_of({"b": TWO, "a": ONE}), "model", ("headers",)),
        (file_of({"a": ONE, "b": TWO}, {"format": "pt"}), "model", ("headers",)),
        (file_of({"a": ONE, "b": TWO}, padding=5), "model", ("headers",)),
        (file_of({"a": ONE, "b": TWO}, padding=5), "renamed", ("headers", "file names")),
        (file_of({"a": ONE, "b": TWO}), "model", ()),
    ],
)
def test_names_of_files_and_headers_are_no_difference(
    store: Store, file: bytes, path: str, arrangement: tuple[str, ...]
) -> None:
    a = add(store, {"model": file_of({"a": ONE, "b": TWO}), "config.json": b"{}"})
    report = compare(store, a, add(store, {path: file, "config.json": b"[]"}))
    assert report.same
    assert report.changes.arrangement == arrangement
    assert report.other_files == ("config.json",)
    assert not report.same_files


def test_the_same_object_is_the_same_to_the_byte(store: Store) -> None:
    a = add(store, {"model": file_of({"a": ONE})})
    report = compare(store, a, a)
    assert report.answer(strict=True)
    assert "in the same files, byte for byte" in render_weights(report)


def test_tensors_that_came_went_changed_or_were_renamed_are_told_apart(store: Store) -> None:
    report = compared(
        store,
        {"same": ONE, "changed": TWO, "old name": SMALL, "gone": Raw("F32", (), b"gone")},
        {"same": ONE, "changed": ONE, "new name": SMALL, "come": Raw("I32", (), b"come")},
    )
    changes = report.changes
    assert [a.name for a, _ in changes.changed] == ["changed"]
    assert [(a.name, b.name) for a, b in changes.renamed] == [("old name", "new name")]
    assert [each.name for each in changes.added] == ["come"]
    assert [each.name for each in changes.removed] == ["gone"]
    assert (changes.compared, changes.differing) == (5, 4)
    assert changes.share == (3 + 3 + 4 + 4) / 28
    assert changes.statement == (
        "the weights differ in 4 of 5 tensors (50.0 % of bytes): changed, old name, gone, …"
    )


def test_other_shapes_and_types_are_not_compared_by_element(store: Store) -> None:
    a = {"a": Raw("U8", (2, 3), b"abcdef"), "b": Raw("I8", (2,), b"xy")}
    report = compared(store, a, {"a": Raw("U8", (3, 2), b"abcdef"), "b": Raw("U8", (2,), b"xy")})
    assert report.found == (None, None)
    text = render_weights(report)
    assert "U8 [2, 3] → U8 [3, 2]" in text
    assert "I8 [2] → U8 [2]" in text


@pytest.mark.parametrize(
    ("dtype", "old", "new", "difference"),
    [
        ("F32", [1.0, 2.0, 3.0], [1.0, 2.0, 3.0000002], (1, 2.384185791015625e-07, 1)),
        ("F64", [1.0, 2.0], [1.0000000000000002, 0.0], (2, 2.0, None)),
        ("F16", [1.0, 2.0], [1.0009765625, 2.0], (1, 0.0009765625, 1)),
        ("BF16", [0x3F80, 0x4000], [0x3F82, 0x4000], (1, 0.015625, 2)),
    ],
)
def test_numbers_are_compared_by_value(
    store: Store,
    dtype: str,
    old: list[float],
    new: list[float],
    difference: tuple[int, float, int | None],
) -> None:
    report = compared(store, {"a": numbers(old, dtype)}, {"a": numbers(new, dtype)})
    (found,) = report.found
    assert found is not None
    assert (found.compared, found.differing, found.max_abs) == (len(old), *difference[:2])
    assert difference[2] in {None, found.max_ulp}


@pytest.mark.parametrize(
    ("dtype", "width"), [("F8_E4M3", 1), ("I16", 2), ("U8", 1), ("C64", 8), ("I64", 8)]
)
def test_other_types_are_compared_by_element_and_bit(store: Store, dtype: str, width: int) -> None:
    old = bytes(4 * width)
    new = b"\x81" + old[1:-1] + b"\x01"
    report = compared(store, {"a": Raw(dtype, (4,), old)}, {"a": Raw(dtype, (4,), new)})
    (found,) = report.found
    assert found is not None
    assert (found.compared, found.differing, found.bits) == (4, 2, 3)
    assert "2 of 4 elements, 3 bits" in render_weights(report)


def test_nan_is_counted(store: Store) -> None:
    old, new = numbers([1.0, np.nan], "F32"), numbers([np.nan, np.nan], "F32")
    report = compared(store, {"a": old}, {"a": new})
    assert report.to_json()["changed"][0]["elements"]["with_nan"] == 1
    assert "1 with NaN" in render_weights(report)


def test_only_what_differs_is_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int, int]] = []
    original = tensor_file.TensorFile.read_into

    def watched(self: object, tensor: object, offset: int, buffer: bytearray) -> None:
        read.append((offset, len(buffer)))
        original(self, tensor, offset, buffer)  # type: ignore[arg-type]

    monkeypatch.setattr(tensor_file.TensorFile, "read_into", watched)
    tensors = {f"t{number}": Raw("U8", (999,), bytes(999)) for number in range(9)}
    report = compared(store, tensors, {**tensors, "t5": Raw("U8", (999,), b"x" * 999)})
    assert report.changes.differing == 1
    assert read == [(0, 999), (0, 999)]
    read.clear()
    compared(store, tensors, dict(reversed(tensors.items())))
    assert read == []


def test_one_name_in_several_files_is_matched_by_file(store: Store) -> None:
    a = {"x": file_of({"a": ONE}), "y": file_of({"a": TWO})}
    report = compare(store, add(store, a), add(store, {**a, "y": file_of({"a": SMALL})}))
    ((old, new),) = report.changes.changed
    assert (old.path, new.path) == ("y", "y")
    left = add(store, {"x": file_of({"a": ONE}), "y": file_of({"a": TWO})})
    changes = compare(store, left, add(store, {"y": file_of({"a": SMALL})})).changes
    assert [(old.path, new.path) for old, new in changes.changed] == [("y", "y")]
    assert [each.path for each in changes.removed] == ["x"]
    swapped = {"x": a["y"], "y": a["x"]}
    assert compare(store, add(store, a), add(store, swapped)).same


def test_a_file_or_directory_of_an_object_can_be_compared(store: Store) -> None:
    digest = add(
        store,
        {
            "one/model": file_of({"a": ONE}),
            "two/model": file_of({"a": TWO}),
            "one/note": b"text",
        },
    )
    for below in ("one", "one/model"):
        side = weights_side(store, digest, below=below, ref="it")
        assert list(side.weights.files) == ["model"]
    one, two = (weights_side(store, digest, below=each, ref="it") for each in ("one", "two"))
    assert not diff_weights(one, two).same
    with pytest.raises(InvalidInputError, match="neither a run nor weights"):
        weights_side(store, digest, below="one/note", ref="it")


def test_objects_that_are_referred_to_count(store: Store) -> None:
    inner = add(store, {"model": file_of({"a": ONE})})
    outer = write_tree(store, {}, {"deep/weights": (inner, None)})
    report = compare(store, inner, outer)
    assert report.changes.arrangement == ("file names",)


@settings(max_examples=50, deadline=None)
@given(TENSOR_SETS.filter(bool), st.data())
def test_no_layout_of_the_same_tensors_is_a_difference(
    store: Store, tensors: Raws, data: st.DataObject
) -> None:
    a, b = (
        Weights.of(
            store, add(store, dict(zip("abcdef", data.draw(layouts(tensors)), strict=False)))
        )
        for _ in range(2)
    )
    changes = weight_changes(a, b)
    assert changes.same
    assert a.digest == b.digest
    assert (changes.share, changes.compared) == (0, len(tensors))


@settings(max_examples=50, deadline=None)
@given(TENSOR_SETS, TENSOR_SETS, st.data())
def test_every_tensor_is_accounted_for_once(
    store: Store, old: Raws, new: Raws, data: st.DataObject
) -> None:
    kept = data.draw(st.sets(st.sampled_from(sorted(old)))) if old else set()
    new = {**new, **{name: old[name] for name in kept}}
    a, b = (
        Weights.of(store, add(store, {"model": file_of(tensors), "x": b""}))
        for tensors in (old, new)
    )
    changes = weight_changes(a, b)
    left = [each.name for each, _ in (*changes.changed, *changes.renamed)]
    left += [each.name for each in changes.removed]
    right = [each.name for _, each in (*changes.changed, *changes.renamed)]
    right += [each.name for each in changes.added]
    assert sorted(left) == sorted(name for name in old if old[name] != new.get(name))
    assert sorted(right) == sorted(name for name in new if new[name] != old.get(name))
    assert changes.same == (a.digest == b.digest)
    assert 0 <= changes.share <= 1


@settings(max_examples=50, deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=6, unique=True))
def test_names_do_nothing_to_a_terminal(store: Store, names: list[str]) -> None:
    report = compared(
        store, dict.fromkeys(names, ONE), {**dict.fromkeys(names, TWO), "x" * 50: SMALL}
    )
    text = render_weights(report)
    assert all(line.isprintable() for line in text.split("\n"))
    assert json.loads(json.dumps(report.to_json())) == report.to_json()


def test_many_equal_tensors_are_matched_in_one_pass(store: Store) -> None:
    empty = Raw("U8", (0,), b"")
    old = {f"a{number}": empty for number in range(20_000)}
    new = {f"b{number}": empty for number in range(20_000)}
    report = compared(store, old, new)
    assert len(report.changes.renamed) == 20_000
    assert "… and 19988 more (--json has all)" in render_weights(report)


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.0, "0.0 %"),
        (1e-6, "less than 0.1 %"),
        (0.004, "0.4 %"),
        (0.99999, "more than 99.9 %"),
        (1.0, "100.0 %"),
    ],
)
def test_a_share_is_never_rounded_to_nothing_or_all(share: float, said: str) -> None:
    assert percent(share) == said


GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "comparing-runs.md"


def test_the_guide_shows_weights_as_they_are_printed(store: Store) -> None:
    base = {
        "model.layers.0.mlp.down_proj.weight": numbers([[0.5, 1.0], [2.0, -1.0]], "F32"),
        "model.layers.0.mlp.up_proj.weight": numbers([[0.25, 4.0], [1.0, 1.0]], "F32"),
        "model.norm.weight": numbers([1.0, 1.0], "F32"),
    }
    tuned = {
        **base,
        "model.layers.0.mlp.down_proj.weight": numbers([[0.5, 1.0000001], [2.0, -1.5]], "F32"),
        "lm_head.weight": numbers([[0.5, 0.5]], "F32"),
    }
    text = render_weights(compared(store, base, tuned))
    assert text in [block.split("\n", 1)[1] for block in GUIDE.read_text().split("```")[1::2]]
    assert max(map(len, text.splitlines())) <= WIDTH


def test_the_guide_names_every_member_of_the_document(store: Store) -> None:
    report = compared(store, {"a": ONE}, {"a": TWO}).to_json()
    section = GUIDE.read_text().partition("## Weights")[2].partition("\n## ")[0]
    named = {*report, *report["a"], *report["changed"][0]["elements"], *report["changed"][0]["a"]}
    assert [name for name in named if f"`{name}`" not in section] == []
