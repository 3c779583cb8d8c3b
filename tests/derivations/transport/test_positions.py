"""What a killed process noted of its threads is believed where all of it fits, and nowhere else."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dis_derivations.transport.answer import Version
from dis_derivations.transport.positions import Positions

VERSION = Version(1000, '"one"', None)
LENGTH = 1000
extents = st.integers(0, LENGTH - 1).flatmap(
    lambda start: st.tuples(st.just(start), st.integers(start + 1, LENGTH))
)


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    found = os.open(tmp_path / "positions", os.O_RDWR | os.O_CREAT)
    yield found
    os.close(found)


settled = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


@settled
@given(st.lists(st.tuples(st.integers(0, 7), extents), max_size=20))
def test_each_thread_is_where_it_noted_last(
    descriptor: int, noted: list[tuple[int, tuple[int, int]]]
) -> None:
    os.ftruncate(descriptor, 0)
    positions = Positions(descriptor, "boot")
    for slot, (start, end) in noted:
        positions.note(slot, VERSION, start, end)
    expected = sorted(dict(noted).values())
    assert sorted(Positions(descriptor, "boot").read(VERSION, LENGTH)) == expected


@settled
@given(extents, st.integers(0, 31), st.integers(1, 255))
def test_a_damaged_note_says_nothing(
    descriptor: int, extent: tuple[int, int], place: int, change: int
) -> None:
    Positions(descriptor, "boot").note(0, VERSION, *extent)
    (byte,) = os.pread(descriptor, 1, place)
    os.pwrite(descriptor, bytes([byte ^ change]), place)
    assert list(Positions(descriptor, "boot").read(VERSION, LENGTH)) == []


@settled
@given(st.binary(max_size=200))
def test_what_somebody_else_wrote_says_nothing(descriptor: int, data: bytes) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, data, 0)
    assert list(Positions(descriptor, "boot").read(VERSION, LENGTH)) == []


@pytest.mark.parametrize(
    ("boot", "version", "length"),
    [
        ("another", VERSION, LENGTH),
        ("boot", replace(VERSION, etag='"two"'), LENGTH),
        ("boot", replace(VERSION, size=1001), LENGTH),
        ("boot", replace(VERSION, modified="today"), LENGTH),
        ("boot", VERSION, 499),
    ],
)
def test_a_note_counts_for_one_version_in_one_run_of_the_machine_and_what_the_file_can_hold(
    descriptor: int, boot: str, version: Version, length: int
) -> None:
    Positions(descriptor, "boot").note(0, VERSION, 0, 500)
    assert list(Positions(descriptor, boot).read(version, length)) == []
    assert list(Positions(descriptor, "boot").read(VERSION, 500)) == [(0, 500)]
