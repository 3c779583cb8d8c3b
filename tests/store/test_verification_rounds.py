"""Verification in rounds: every object in its turn, however often it is interrupted."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dis_store import Digest, Pace, Store
from dis_store.integrity import verification_round
from trees import Blob, write_tree


@pytest.fixture
def digests(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[Digest]:
    monkeypatch.setattr(verification_round, "_STEP_OBJECTS", 1)
    return sorted(write_tree(store, {"file": Blob(bytes([number]) * 10)}) for number in range(7))


def spoil(store: Store, digest: Digest) -> None:
    file = store.object_path(digest) / "file"
    file.chmod(0o644)
    file.write_bytes(b"!" * 10)
    file.chmod(0o444)


def test_each_call_goes_on_where_the_one_before_stopped(
    store: Store, digests: list[Digest]
) -> None:
    left = [store.verify_onwards(max_bytes=20).left for _ in range(4)]
    assert left == [5, 3, 1, 0]
    again = store.verify_onwards(max_bytes=20)
    assert (again.round.number, again.left) == (2, 5)
    assert again.verification.objects == 2
    assert len(digests) == 7


def test_a_call_reads_hardly_more_than_it_may(store: Store) -> None:
    """The last object of a call may be larger; a step is not, whatever it is in calls without a limit."""
    for number in range(7):
        write_tree(store, {"file": Blob(bytes([number]) * 10)})
    assert [store.verify_onwards(max_bytes=20).verification.objects for _ in range(4)] == [
        2, 2, 2, 1,
    ]  # fmt: skip


def test_a_slow_call_notes_where_it_is_every_half_minute(store: Store) -> None:
    for number in range(7):
        write_tree(store, {"file": Blob(bytes([number]) * 10)})
    noted: set[int] = set()

    def wait(_: float) -> None:
        noted.add(verification_round.read_round(store._foundation).objects)

    store.verify_onwards(jobs=1, pace=Pace(1, sleep=wait, clock=lambda: 0.0))
    assert noted == {0, 3, 6}


@given(st.lists(st.integers(min_value=1, max_value=100), min_size=1, max_size=30))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20
)
def test_a_round_reads_every_object_exactly_once(
    tmp_path_factory: pytest.TempPathFactory, limits: list[int]
) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        Store.open(tmp_path_factory.mktemp("round") / "store") as store,
    ):
        patch.setattr(verification_round, "_STEP_OBJECTS", 2)
        count = len({write_tree(store, {"f": Blob(bytes([n]) * 10)}) for n in range(9)})
        looked_at = 0
        for limit in limits:
            report = store.verify_onwards(max_bytes=limit)
            looked_at += report.verification.objects
            assert report.round.objects == looked_at
            if report.finished:
                assert looked_at == count
                looked_at = 0


def test_an_interrupted_call_loses_one_step_at_most(store: Store, digests: list[Digest]) -> None:
    calls: list[int] = []

    def stop_at_the_third(amount: int, _: int) -> None:
        if amount:
            calls.append(amount)
            if len(calls) == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.verify_onwards(progress=stop_at_the_third)
    assert store.verify_onwards().verification.objects == len(digests) - 2


def test_damage_is_told_again_until_it_is_repaired_or_gone(
    store: Store, digests: list[Digest]
) -> None:
    spoil(store, digests[0])
    assert [p.subject for p in store.verify_onwards(max_bytes=10).verification.problems] == [
        digests[0]
    ]
    for _ in range(3):
        report = store.verify_onwards()
        assert [problem.subject for problem in report.verification.problems] == [digests[0]]
    store.repair(report.verification.problems, rebuild=lambda _: _write_again(store))
    assert store.verify_onwards().verification.ok


def _write_again(store: Store) -> None:
    for number in range(7):
        write_tree(store, {"file": Blob(bytes([number]) * 10)})


def test_records_are_verified_at_the_end_of_a_round(store: Store, digests: list[Digest]) -> None:
    del digests
    derivation = store.add_derivation(b'{"inputs":{},"name":"example","type":"derivation"}')
    path = store.path / "derivations" / derivation[:2] / f"{derivation}.json"
    path.chmod(0o644)
    path.write_bytes(b"!")
    assert store.verify_onwards(max_bytes=20).verification.ok
    kinds = [problem.kind for problem in store.verify_onwards().verification.problems]
    assert kinds == ["damaged derivation"]


def test_an_object_that_came_in_behind_waits_for_the_next_round(
    store: Store, digests: list[Digest]
) -> None:
    store.verify_onwards(max_bytes=60)
    new = [write_tree(store, {"new": Blob(bytes([number]))}) for number in range(40)]
    first = min(new)
    assert first < digests[0]
    spoilt = store.object_path(first) / "new"
    spoilt.chmod(0o600)
    assert first not in {p.subject for p in store.verify_onwards().verification.problems}
    assert first in {p.subject for p in store.verify_onwards().verification.problems}


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"type":"verification-round"}'])
def test_a_damaged_note_begins_a_new_round(
    store: Store, digests: list[Digest], content: bytes
) -> None:
    store.verify_onwards(max_bytes=10)
    note = store.path / "verification.json"
    note.chmod(0o644)
    note.write_bytes(content)
    assert store.verify_onwards().verification.objects == len(digests)


def test_the_note_says_how_far_the_round_has_come(store: Store, digests: list[Digest]) -> None:
    store.verify_onwards(max_bytes=20)
    assert json.loads((store.path / "verification.json").read_bytes()) == {
        "type": "verification-round",
        "format": 1,
        "number": 1,
        "after": digests[1],
        "objects": 2,
        "bytes": 20,
        "damaged": [],
    }


def test_a_pace_is_kept_and_rest_is_not_saved_up() -> None:
    now = [0.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(100, clock=lambda: now[0], sleep=sleep)
    pace(50)
    pace(50)
    assert (slept, now) == ([0.5, 0.5], [1.0])
    now[0] = 60.0
    pace(100)
    assert slept[-1] == 1.0


def test_a_store_that_is_read_slowly_is_read_whole(
    store: Store, digests: list[Digest], tmp_path: Path
) -> None:
    del tmp_path
    waited: list[float] = []
    pace = Pace(1000, sleep=waited.append)
    assert store.verify(pace=pace, jobs=2).bytes == 10 * len(digests)
    assert len(waited) == len(digests)
