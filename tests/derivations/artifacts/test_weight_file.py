"""Files of weights: what is asked for is what is there, and what is not there is damage and never zeros."""

import gc
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.artifacts.regular_file import UnreadableWeightsError
from dis_derivations.artifacts.weight_file import WeightFile
from dis_store.errors import IntegrityError

CONTENT = bytes(range(256)) * 40


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("weights") / "model.safetensors"
    file.write_bytes(CONTENT)
    return file


@given(begin=st.integers(0, len(CONTENT) + 10), size=st.integers(0, len(CONTENT) + 10))
def test_every_part_is_given_whole_or_not_at_all(path: Path, begin: int, size: int) -> None:
    buffer = np.full(size, 7, np.uint8)
    file = WeightFile(path)
    if size and begin + size > len(CONTENT):
        with pytest.raises(IntegrityError, match="is shorter than its header says") as caught:
            file.read_into(buffer, begin)
        assert str(path) in caught.value.what
        return
    file.read_into(buffer, begin)
    assert buffer.tobytes() == CONTENT[begin : begin + size]


def test_a_read_that_gives_less_than_was_asked_for_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.preadv

    def a_little(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        return whole(descriptor, [buffers[0][:100]], offset)

    monkeypatch.setattr(os, "preadv", a_little)
    buffer = bytearray(1050)
    WeightFile(path).read_into(buffer, 3)
    assert buffer == CONTENT[3:1053]


def test_the_file_is_the_one_that_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"first")
    file = WeightFile(path)
    path.unlink()
    path.write_bytes(b"other")
    buffer = bytearray(5)
    file.read_into(buffer, 0)
    assert buffer == b"first"


def test_it_is_closed_with_the_last_that_holds_it(path: Path) -> None:
    def opened() -> int:
        gc.collect()
        descriptors = Path("/proc/self/fd").iterdir()
        return sum(each.exists() and each.samefile(path) for each in descriptors)

    before = opened()
    file = WeightFile(path)
    assert opened() == before + 1
    del file
    assert opened() == before
    file = WeightFile(path)
    file.close()
    file.close()
    assert opened() == before


def test_what_is_not_there_or_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone"):
        with pytest.raises(UnreadableWeightsError):
            WeightFile(path)
