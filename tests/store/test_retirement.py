"""Which automatic roots a policy gives up, and when a root counts as used."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clock import Wall
from dis_store import (
    Digest,
    LastUse,
    RetirementPolicy,
    Root,
    SpaceGoal,
    Store,
    last_use,
)
from dis_store.garbage_collection import use_history
from trees import write_text

NOW = datetime(2026, 11, 29, tzinfo=UTC)


def used(days: int) -> LastUse:
    return LastUse(int((NOW - timedelta(days=days)).timestamp()) * 10**9, days_since=days)


def run() -> Root:
    return Root(Digest.of(b"x"), automatic=True)


RUNS = {"today": run(), "week": run(), "month": run(), "named": Root(Digest.of(b"x"))}
USES = {"today": used(0), "week": used(7), "month": used(30), "named": used(90)}


@pytest.mark.parametrize(
    ("policy", "retired"),
    [
        (RetirementPolicy(), []),
        (RetirementPolicy(older_than=timedelta(days=3)), ["month", "week"]),
        (RetirementPolicy(older_than=timedelta(days=10)), ["month"]),
        (RetirementPolicy(keep_last=1), ["month", "week"]),
        (RetirementPolicy(keep_last=0), ["month", "week", "today"]),
        (RetirementPolicy(keep_last=99), []),
        (RetirementPolicy(older_than=timedelta(days=3), keep_last=2), ["month"]),
        (RetirementPolicy(older_than=timedelta(0), keep_last=0), ["month", "week"]),
    ],
)
def test_a_policy_retires_automatic_roots_only(
    policy: RetirementPolicy, retired: list[str]
) -> None:
    assert policy.retired(RUNS, USES, NOW) == retired


@pytest.mark.parametrize(("days_since", "retired"), [(1, []), (2, []), (3, ["a"])])
def test_the_clock_alone_makes_no_root_old(days_since: int, retired: list[str]) -> None:
    uses = {"a": replace(used(400), days_since=days_since)}
    policy = RetirementPolicy(older_than=timedelta(days=30))
    assert policy.retired({"a": run()}, uses, NOW) == retired


@pytest.mark.parametrize(
    ("policy", "unproven"),
    [
        (RetirementPolicy(older_than=timedelta(days=30)), ["a", "b"]),
        (RetirementPolicy(older_than=timedelta(days=30), keep_last=1), ["a"]),
        (RetirementPolicy(older_than=timedelta(days=500)), []),
        (RetirementPolicy(keep_last=0), []),
        (RetirementPolicy(), []),
    ],
)
def test_what_stays_because_only_the_clock_calls_it_old_is_known(
    policy: RetirementPolicy, unproven: list[str]
) -> None:
    uses = {name: used(days) for name, days in {"a": 402, "b": 401, "c": 400, "named": 403}.items()}
    uses |= {name: replace(uses[name], days_since=2) for name in ("a", "b", "named")}
    roots = {"a": run(), "b": run(), "c": run(), "named": Root(Digest.of(b"x"))}
    uses["c"] = replace(uses["c"], days_since=3)
    if policy.keep_last == 1:
        roots["c"] = replace(roots["c"], automatic=False)
    assert policy.unproven(roots, uses, NOW) == unproven


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    wall = Wall()
    wall.hang(monkeypatch)
    return wall


def at(wall: Wall, store: Store, policy: RetirementPolicy) -> list[str]:
    roots = store.roots()
    return policy.retired(roots, use_history.last_uses(store._foundation.layout, roots), wall.time)


def test_what_was_just_used_stays_when_the_clock_jumps_400_days(store: Store, wall: Wall) -> None:
    for name in ("old", "new"):
        store.set_root(name, Root(write_text(store, name), automatic=True))
    policy = RetirementPolicy(older_than=timedelta(days=30))
    wall.time += timedelta(days=400)
    assert at(wall, store, policy) == []
    # Commands that run under the wrong clock are no evidence while they all run on one day.
    for _ in range(5):
        store.note_use("new")
        assert at(wall, store, policy) == []
    for _ in range(2):
        wall.time += timedelta(days=1)
        store.note_use("new")
    assert at(wall, store, policy) == ["old"]


def test_a_root_is_old_after_days_of_use_without_it(store: Store, wall: Wall) -> None:
    for name in ("used daily", "not used"):
        store.set_root(name, Root(write_text(store, name), automatic=True))
    policy = RetirementPolicy(older_than=timedelta(days=10))
    for _ in range(9):
        wall.time += timedelta(days=1)
        store.note_use("used daily")
        assert at(wall, store, policy) == []
    wall.time += timedelta(days=2)
    assert at(wall, store, policy) == ["not used"]


def test_a_later_use_has_a_later_stamp_when_the_clock_was_set_back(
    store: Store, wall: Wall
) -> None:
    for name in ("first", "second"):
        store.set_root(name, Root(write_text(store, name), automatic=True))
    wall.time -= timedelta(days=400)
    store.note_use("first")
    assert at(wall, store, RetirementPolicy(keep_last=1)) == ["second"]
    assert at(wall, store, RetirementPolicy(older_than=timedelta(0))) == []


def test_days_of_a_clock_that_was_ahead_count_no_more(store: Store, wall: Wall) -> None:
    store.set_root("run", Root(write_text(store, "run"), automatic=True))
    right = wall.time
    for _ in range(4):
        wall.time += timedelta(days=100)
        last_use.note_day(store._foundation.layout)
    wall.time = right + timedelta(days=1)
    (use,) = use_history.last_uses(store._foundation.layout, ["run"]).values()
    assert use.days_since == 1
    use_history.forget_days(store._foundation.layout)
    assert [path.name for path in (store.path / "roots" / "days").iterdir()] == [
        right.date().isoformat()
    ]


def test_only_so_many_days_are_kept(store: Store, wall: Wall) -> None:
    for _ in range(40):
        last_use.note_day(store._foundation.layout)
        wall.time += timedelta(days=1)
    use_history.forget_days(store._foundation.layout)
    assert len(list((store.path / "roots" / "days").iterdir())) == 32


def test_a_use_of_nothing_is_no_use(store: Store) -> None:
    store.note_use("nobody")
    assert use_history.last_uses(store._foundation.layout, ["nobody"]) == {}
    store.set_root("run", Root(write_text(store, "run")))
    for name in ("no day", "2026-99-99"):
        (store.path / "roots" / "days" / name).touch()
    assert use_history.last_uses(store._foundation.layout, ["run"])["run"].days_since == 0


def test_room_is_made_by_the_roots_that_were_used_longest_ago(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c", "golden"):
        root = Root(write_text(store, name * 1000), automatic=name != "golden")
        store.set_root(name, root)
    store.note_use("a")
    store.close()
    store = Store.open(store.path)
    monkeypatch.setattr("dis_store.garbage_collection.space_goal.free_bytes", lambda _top: 5000)
    assert store.collect_garbage(goal=SpaceGoal(keep_free=5000)).retired_roots == ()
    report = store.collect_garbage(goal=SpaceGoal(keep_free=6000))
    assert (report.retired_roots, report.freed_bytes, report.reached) == (("b",), 1000, True)
    report = store.collect_garbage(
        policy=RetirementPolicy(keep_last=1), goal=SpaceGoal(keep_free=9000)
    )
    assert (report.retired_roots, report.reached) == (("c",), False)
    report = store.collect_garbage(goal=SpaceGoal(keep_free=9000))
    assert (report.retired_roots, report.reached) == (("a",), False)
    assert store.roots().keys() == {"golden"}
    store.close()


def test_a_limit_alone_gives_up_no_root(store: Store) -> None:
    store.set_root("run", Root(write_text(store, "run"), automatic=True))
    for number in range(3):
        write_text(store, f"dead {number}")
    store.close()
    with Store.open(store.path) as again:
        report = again.collect_garbage(goal=SpaceGoal(max_freed=7))
        assert (len(report.objects), report.freed_bytes, report.retired_roots) == (2, 12, ())
        # The oldest went first.
        assert again.read_bytes(again.objects()[-1], "text") == b"dead 2"
        report = again.collect_garbage(goal=SpaceGoal(max_freed=7))
        assert (len(report.objects), report.reached) == (1, False)
        assert again.roots().keys() == {"run"}


def test_the_note_of_a_use_waits_for_no_disk(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.set_root("run", Root(write_text(store, "run"), automatic=True))
    monkeypatch.setattr("os.fsync", lambda _descriptor: pytest.fail("it waited"))
    record = store.path / "roots" / "run.json"
    before = record.read_bytes(), record.stat().st_mtime_ns
    store.note_use("run")
    assert record.read_bytes() == before[0]
    assert record.stat().st_mtime_ns > before[1]
    assert Path(store.path / "roots" / "last-use").stat().st_mtime_ns == record.stat().st_mtime_ns
