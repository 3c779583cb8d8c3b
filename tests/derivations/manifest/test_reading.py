import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.manifest.overrides import Override
from dis_derivations.manifest.reading import MAX_BASES, SourceFile, merge, read_manifest_files
from dis_store.errors import InvalidInputError
from manifest_documents import write_json

_LEAVES = st.none() | st.integers(-9, 9) | st.text(max_size=2) | st.lists(st.integers(0, 3))
_OBJECTS = st.recursive(
    st.dictionaries(st.sampled_from("abc"), _LEAVES, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), _LEAVES | inner, max_size=3),
    max_leaves=8,
)


@given(_OBJECTS, _OBJECTS, _OBJECTS)
def test_merging_is_associative_so_a_chain_has_one_meaning(
    base: dict[str, Any], middle: dict[str, Any], top: dict[str, Any]
) -> None:
    # A leaf between two objects of one name ends the merge, whichever pair is merged first.
    if _conflicts(base, middle) or _conflicts(middle, top) or _conflicts(base, top):
        return
    assert merge(merge(base, middle), top) == merge(base, merge(middle, top))


def _conflicts(below: Any, above: Any) -> bool:
    if isinstance(below, dict) != isinstance(above, dict):
        return True
    if not isinstance(below, dict):
        return False
    return any(_conflicts(below[key], above[key]) for key in below.keys() & above.keys())


@given(_OBJECTS)
def test_merging_with_nothing_or_with_itself_changes_nothing(document: dict[str, Any]) -> None:
    assert merge(document, {}) == merge({}, document) == merge(document, document) == document


@given(_OBJECTS, _OBJECTS)
def test_every_member_of_the_overlay_wins(base: dict[str, Any], overlay: dict[str, Any]) -> None:
    merged = merge(base, overlay)
    assert set(merged) == set(base) | set(overlay)
    for key, value in overlay.items():
        assert merged[key] == value or isinstance(value, dict)


def test_objects_merge_and_lists_are_replaced() -> None:
    base = {"a": {"x": 1, "y": [1, 2]}, "b": 1}
    assert merge(base, {"a": {"y": [3]}}) == {"a": {"x": 1, "y": [3]}, "b": 1}
    assert base == {"a": {"x": 1, "y": [1, 2]}, "b": 1}


def test_a_chain_of_bases_is_read_nearest_first_relative_to_the_file_that_names_each(
    tmp_path: Path,
) -> None:
    near = write_json(tmp_path / "near.json", {"x_base_manifest": "sub/mid.json", "a": 1})
    mid = write_json(tmp_path / "sub/mid.json", {"x_base_manifest": "../far.json", "a": 2, "b": 2})
    far = write_json(tmp_path / "far.json", {"a": 3, "b": 3, "c": 3})
    raw = read_manifest_files(near)
    assert [file.path.resolve() for file in raw.files] == [near, mid, far]
    assert raw.document == {"a": 1, "b": 2, "c": 3}
    assert raw.files[2].data == far.read_bytes()


def test_each_member_knows_the_file_that_wrote_it(tmp_path: Path) -> None:
    near = write_json(
        tmp_path / "near.json", {"x_base_manifest": "far/far.json", "a": {"x": 1}, "l": [1]}
    )
    far = write_json(tmp_path / "far/far.json", {"a": {"y": 2}, "l": [3, 4], "z": {"q": "p"}})
    raw = read_manifest_files(near, ["z.new=5"])

    def place(pointer: str) -> Path | None:
        origin = raw.origin(pointer)
        return origin.path if isinstance(origin, SourceFile) else None

    assert place("/a/x") == near
    assert place("/a/y") == far
    assert place("/a/missing") == near
    assert place("/l/0") == near
    assert place("/z/q") == far
    assert isinstance(raw.origin("/z/new"), Override)
    assert raw.locate("/z/q", "model") == far.parent / "model"
    assert raw.locate("/a/x", "model") == near.parent / "model"
    assert raw.locate("/z/new", "model") == Path.cwd() / "model"
    assert raw.locate("/z/q", "/model") == Path("/model")


def test_a_manifest_behind_a_link_finds_its_base_where_it_really_is(tmp_path: Path) -> None:
    write_json(tmp_path / "real/base.json", {"a": 1})
    real = write_json(tmp_path / "real/near.json", {"x_base_manifest": "base.json"})
    (tmp_path / "link.json").symlink_to(real)
    assert read_manifest_files(tmp_path / "link.json").document == {"a": 1}


def test_a_manifest_that_inherits_from_itself_is_refused(tmp_path: Path) -> None:
    one = write_json(tmp_path / "one.json", {"x_base_manifest": "two.json"})
    write_json(tmp_path / "two.json", {"x_base_manifest": "one.json"})
    with pytest.raises(InvalidInputError, match="inherits from itself") as caught:
        read_manifest_files(one)
    assert "two.json" in str(caught.value.cause)
    write_json(one, {"x_base_manifest": "./one.json"})
    with pytest.raises(InvalidInputError, match="inherits from itself"):
        read_manifest_files(one)


def test_a_chain_may_have_a_bounded_number_of_bases(tmp_path: Path) -> None:
    for index in range(MAX_BASES + 1):
        write_json(tmp_path / f"{index}.json", {"x_base_manifest": f"{index + 1}.json"})
    write_json(tmp_path / f"{MAX_BASES + 1}.json", {})
    assert len(read_manifest_files(tmp_path / "1.json").files) == MAX_BASES + 1
    with pytest.raises(InvalidInputError, match="too many bases"):
        read_manifest_files(tmp_path / "0.json")


@pytest.mark.parametrize("base", ["", "  ", 5, None, ["a.json"], {}])
def test_a_base_that_is_no_path_is_refused(tmp_path: Path, base: Any) -> None:
    near = write_json(tmp_path / "near.json", {"x_base_manifest": base})
    with pytest.raises(InvalidInputError, match="wrong x_base_manifest"):
        read_manifest_files(near)


def test_a_missing_base_names_the_file_that_wants_it(tmp_path: Path) -> None:
    near = write_json(tmp_path / "near.json", {"x_base_manifest": "gone.json"})
    with pytest.raises(InvalidInputError, match=r"no file .*gone\.json") as caught:
        read_manifest_files(near)
    assert "near.json" in str(caught.value.cause)


def test_files_that_are_no_files_are_refused_and_not_waited_for(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no file"):
        read_manifest_files(tmp_path / "gone.json")
    with pytest.raises(InvalidInputError, match=r"cannot be read|not a regular file"):
        read_manifest_files(tmp_path)
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(InvalidInputError, match="not a regular file"):
        read_manifest_files(tmp_path / "pipe.json")
    with pytest.raises(InvalidInputError, match="is not a path"):
        read_manifest_files(Path("nul\x00byte.json"))
    (tmp_path / "loop.json").symlink_to("loop.json")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_manifest_files(tmp_path / "loop.json")


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b'{"a": 1,}', "line 1"),
        (b"", "line 1"),
        (b'{"a": 1, "a": 2}', "appears twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": 9007199254740993}', "2\\^53-1"),
        (b'\xef\xbb\xbf{"a": 1}', "byte order mark"),
        ('{"a": 1}'.encode("utf-16"), "UTF-16"),
        ('{"a": "é"}'.encode("latin-1"), "not UTF-8"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", "nested deeper"),
        (b'{"a": ' * 100000, "nested deeper"),
        (b'{"a": 1} {}', "line 1"),
    ],
)
def test_json_that_two_readers_could_read_differently_is_refused(
    tmp_path: Path, data: bytes, cause: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match=r"bad\.json is not valid JSON.*" + cause):
        read_manifest_files(path)


@pytest.mark.parametrize("data", [b"[]", b'"text"', b"1", b"null"])
def test_a_manifest_is_an_object(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match="not a manifest"):
        read_manifest_files(path)


def test_reading_files_and_locating_locks_import_neither_schema_nor_hashes() -> None:
    program = (
        "import sys, dis_derivations.manifest.loading, dis_derivations.lock.location\n"
        "print(sorted({'pydantic', 'rfc8785', 'numpy', 'difflib'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert json.loads(result.stdout.replace("'", '"')) == []
