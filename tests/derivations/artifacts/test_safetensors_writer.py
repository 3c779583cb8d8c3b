import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.artifacts.float_rounding import rounded_bytes
from dis_derivations.artifacts.safetensors_header import read_header
from dis_derivations.artifacts.safetensors_writer import SafetensorsWriter

ORACLE = Path(__file__).parents[3] / ".venv-oracle"
DTYPES = ["F64", "F32", "F16", "BF16"]


def file_of(
    tensors: list[tuple[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]], dtype: str
) -> bytes:
    pieces: list[bytes] = []
    with SafetensorsWriter(dtype) as writer:
        for name, rows in tensors:
            writer.append(name, rows)
        writer.finish(pieces.append)
    return b"".join(pieces)


@given(
    dtype=st.sampled_from(DTYPES),
    width=st.integers(0, 4),
    chunks=st.lists(st.tuples(st.sampled_from("abé"), st.integers(0, 3)), max_size=8),
)
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    dtype: str,
    width: int,
    chunks: list[tuple[str, int]],
) -> None:
    generator = np.random.default_rng(0)
    tensors = [(name, generator.standard_normal((rows, width))) for name, rows in chunks]
    path = tmp_path_factory.getbasetemp() / "written.safetensors"
    path.write_bytes(file_of(tensors, dtype))
    header = read_header(path)
    data = path.read_bytes()[header.data_start :]
    assert header.data_start % 8 == 0
    assert list(header.tensors) == sorted({name for name, _ in chunks}) or width == 0
    for name, info in header.tensors.items():
        whole = np.concatenate([rows for other, rows in tensors if other == name])
        assert info.dtype == dtype
        assert info.shape == whole.shape
        assert data[info.begin : info.end] == rounded_bytes(whole, dtype)


def test_the_bytes_do_not_depend_on_the_order_of_arrival() -> None:
    rows = np.arange(12.0).reshape(4, 3)
    at_once = file_of([("a", rows), ("b", rows)], "F32")
    in_turns = file_of([("b", rows[:1]), ("a", rows[:3]), ("b", rows[1:]), ("a", rows[3:])], "F32")
    assert at_once == in_turns


def test_one_value_a_row_makes_a_vector(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(file_of([("a", np.zeros(2)), ("a", np.zeros(1))], "BF16"))
    assert read_header(path).tensors["a"].shape == (3,)


def test_metadata_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with SafetensorsWriter("F32", metadata={"format": "np"}) as writer, path.open("wb") as file:
        writer.finish(file.write)
    assert read_header(path).metadata == {"format": "np"}


def test_large_tensors_leave_in_pieces() -> None:
    pieces: list[bytes] = []
    with SafetensorsWriter("F64") as writer:
        writer.append("a", np.zeros((3, 1_000_000)))
        writer.finish(pieces.append)
    assert max(map(len, pieces)) <= 1 << 22
    assert sum(map(len, pieces[1:])) == 24_000_000


def test_rows_of_another_shape_are_refused() -> None:
    with SafetensorsWriter("F32") as writer:
        writer.append("a", np.zeros((1, 3)))
        with pytest.raises(ValueError, match=r"rows of shape \(3,\), not \(4,\)"):
            writer.append("a", np.zeros((1, 4)))
        with pytest.raises(ValueError, match="single value"):
            writer.append("b", np.array(1.0))
        with pytest.raises(ValueError, match="cannot be called"):
            writer.append("__metadata__", np.zeros((1, 4)))
    with pytest.raises(ValueError, match="dtype"):
        SafetensorsWriter("I8")


@pytest.mark.oracle
@pytest.mark.skipif(not (ORACLE / "ready").exists(), reason="built by `make oracle`")
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_reference_library_reads_the_same_values(tmp_path: Path, dtype: str) -> None:
    rows = np.random.default_rng(1).standard_normal((5, 7))
    path = tmp_path / "a.safetensors"
    path.write_bytes(file_of([("x", rows), ("y", rows[:2])], dtype))
    program = (
        "import json, sys; from safetensors.torch import load_file; "
        "print(json.dumps({k: v.double().tolist() for k, v in load_file(sys.argv[1]).items()}))"
    )
    read = json.loads(
        subprocess.run(
            [ORACLE / "bin" / "python", "-c", program, path], check=True, capture_output=True
        ).stdout
    )
    # A value that the format holds rounds to itself, so equal bytes are equal values.
    for name, expected in (("x", rows), ("y", rows[:2])):
        assert rounded_bytes(np.array(read[name]), dtype) == rounded_bytes(expected, dtype)
