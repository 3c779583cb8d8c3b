"""A root whose retention is not over is given up by nobody unasked, and in doubt it is not over."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_store import (
    Digest,
    IntegrityError,
    LastUse,
    Retention,
    RetirementPolicy,
    Root,
    SpaceGoal,
    Store,
    last_use,
)
from dis_store.errors import RetainedRootError
from dis_store.garbage_collection import retention
from dis_store.garbage_collection.retention import kept
from trees import write_text

NOW = datetime(2026, 11, 29, tzinfo=UTC)
EVERYTHING = RetirementPolicy(keep_last=0)
DIGESTS = st.binary(max_size=4).map(Digest.of)


def retained(days: int = 30, **fields: object) -> Root:
    root = Root(Digest.of(b"x"), automatic=True, retention=Retention(days, "the manifest m"))
    return replace(root, **fields)  # type: ignore[arg-type] # names of fields


def used(days_ago: float, days_since: int) -> LastUse:
    return LastUse(int((NOW - timedelta(days=days_ago)).timestamp()) * 10**9, days_since)


@given(
    st.builds(
        Root,
        DIGESTS,
        automatic=st.booleans(),
        label=st.text(),
        created_at=st.text(),
        retention=st.none() | st.builds(Retention, st.integers(1, 10**9), st.text()),
        include=st.lists(st.text(), max_size=3).map(tuple),
    )
)
def test_a_record_decodes_to_the_root_that_it_encodes(root: Root) -> None:
    data = root.encode()
    assert Root.decode(data) == root
    assert (b'"format":2' in data) == bool(root.retention or root.include)


def test_the_shortest_and_the_longest_retention_are_read() -> None:
    for days in (1, 10**9):
        root = retained(days)
        assert Root.decode(root.encode()) == root
    with pytest.raises(IntegrityError):
        Root.decode(retained(10**9 + 1).encode())


def test_a_record_without_wishes_is_what_it_always_was() -> None:
    assert Root(Digest.of(b"x"), created_at="then").encode() == (
        b'{"automatic":false,"created_at":"then","derivation":null,"format":1,"key":null,"label":"",'
        b'"object":"%s","type":"root"}' % Digest.of(b"x").encode()
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"format":2', b'"format":1'),
        (b'"format":2', b'"format":3'),
        (b'"format":2', b'"format":true'),
        (b'"days":30', b'"days":0'),
        (b'"days":30', b'"days":-1'),
        (b'"days":30', b'"days":100000000000000000000'),
        (b'"days":30', b'"days":true'),
        (b'"days":30', b'"days":"30"'),
        (b'"days":30', b'"days":null'),
        (b'{"by":"the manifest m","days":30}', b"[]"),
        (b'{"by":"the manifest m","days":30}', b'{"days":30}'),
        (b'{"by":"the manifest m","days":30}', b"null"),
        (b'"by":"the manifest m"', b'"by":"the manifest m","more":1'),
        (b'"include":["tokens"]', b'"include":"tokens"'),
        (b'"include":["tokens"]', b'"include":[]'),
        (b'"include":["tokens"]', b'"include":[1]'),
        (b'"include":["tokens"]', b'"include":1'),
    ],
)
def test_a_malformed_wish_is_damage(old: bytes, new: bytes) -> None:
    data = retained(include=("tokens",)).encode()
    assert old in data
    with pytest.raises(IntegrityError):
        Root.decode(data.replace(old, new))


@pytest.mark.parametrize(
    ("use", "stays"),
    [
        (used(0, 0), True),
        (used(29.9, 3), True),
        (used(30, 3), False),
        (used(30.1, 3), False),
        (used(30.1, 2), True),
        (used(400, 0), True),
        (None, True),
    ],
)
def test_a_retention_is_over_when_the_clock_and_days_of_use_say_so(
    use: LastUse | None, stays: bool
) -> None:
    found = kept(retained(), use, NOW)
    assert (found is not None) is stays
    if found is not None and use is not None:
        assert found.is_proven is (found.until > NOW)
        assert found.date in found.text
        assert "the manifest m" in found.text


def test_it_counts_from_the_later_of_making_and_use() -> None:
    made = (NOW - timedelta(days=3)).isoformat()
    found = kept(retained(created_at=made), used(400, 9), NOW)
    assert found is not None
    assert found.until == NOW + timedelta(days=27)
    assert kept(retained(created_at="long ago"), used(400, 9), NOW) is None


@pytest.mark.parametrize("made", ["2026-11-26T00:00:00", "2026-11-26T02:00:00+02:00"])
def test_the_time_of_making_is_read_in_its_zone_and_in_utc_where_it_has_none(made: str) -> None:
    found = kept(retained(created_at=made), used(400, 9), NOW)
    assert found is not None
    assert found.until == NOW + timedelta(days=27)


def test_a_time_beyond_all_calendars_is_the_last_one() -> None:
    found = kept(retained(10**9), used(0, 0), NOW)
    assert found is not None
    assert found.date == "9999-12-31"


def test_a_root_without_retention_is_kept_by_its_name_alone() -> None:
    assert kept(Root(Digest.of(b"x"), automatic=True), used(0, 0), NOW) is None


@given(
    uses=st.lists(st.tuples(st.floats(0, 90), st.integers(0, 5)), min_size=1, max_size=6),
    days=st.lists(st.none() | st.integers(1, 60), min_size=6, max_size=6),
    older=st.none() | st.integers(0, 60),
    last=st.none() | st.integers(0, 6),
)
def test_no_policy_gives_up_what_must_be_kept(
    uses: list[tuple[float, int]], days: list[int | None], older: int | None, last: int | None
) -> None:
    policy = RetirementPolicy(None if older is None else timedelta(days=older), last)
    roots = {
        str(number): retained(1, retention=None if each is None else Retention(each, "m"))
        for number, each in zip(range(len(uses)), days, strict=False)
    }
    times = {str(number): used(*each) for number, each in enumerate(uses)}
    plain = {name: replace(root, retention=None) for name, root in roots.items()}
    staying = {name for name in roots if kept(roots[name], times[name], NOW) is not None}
    without = policy.retired(plain, times, NOW)
    assert policy.retired(roots, times, NOW) == [name for name in without if name not in staying]
    assert policy.retained(roots, times, NOW) == [name for name in without if name in staying]


class Wall:
    """A clock on the wall that can be set."""

    def __init__(self) -> None:
        self.time = datetime.now(UTC)

    def __call__(self, zone: object = None) -> datetime:
        del zone
        return self.time

    def nanoseconds(self) -> int:
        return int(self.time.timestamp() * 1e9)

    def today(self) -> date:
        return self.time.date()


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    wall = Wall()

    class Clock(datetime):
        """The class of times, as the modules know it."""

        now = staticmethod(wall)  # type: ignore[assignment] # the wall's zone is always UTC

    monkeypatch.setattr(last_use, "today", wall.today)
    monkeypatch.setattr(time, "time_ns", wall.nanoseconds)
    monkeypatch.setattr(retention, "datetime", Clock)
    return wall


def keep(store: Store, name: str, text: str) -> Root:
    root = replace(retained(), object=write_text(store, text))
    store.set_root(name, root)
    return root


def test_a_collection_gives_up_what_was_retained_when_that_is_over(
    store: Store, wall: Wall
) -> None:
    keep(store, "run", "text")
    goal = SpaceGoal(keep_free=1 << 60)
    for policy, wanted in ((EVERYTHING, SpaceGoal()), (RetirementPolicy(), goal)):
        report = store.collect_garbage(policy=policy, goal=wanted)
        assert (report.retired_roots, report.retained_roots) == ((), ("run",))
    (weight,) = store.collect_garbage(dry_run=True).roots
    assert weight.kept is not None
    wall.time += timedelta(days=31)
    assert store.collect_garbage(policy=EVERYTHING).retained_roots == ("run",)
    for _ in range(2):
        wall.time += timedelta(days=1)
        last_use.note_day(store._foundation.layout)
    assert store.collect_garbage(policy=EVERYTHING).retired_roots == ("run",)


def test_a_clock_that_jumps_ahead_or_back_ends_no_retention(store: Store, wall: Wall) -> None:
    keep(store, "run", "text")
    for days in (4000, -8000):
        wall.time += timedelta(days=days)
        for _ in range(3):
            assert store.collect_garbage(policy=EVERYTHING).retired_roots == ()


def test_looking_does_not_keep_a_root_for_longer(store: Store, wall: Wall) -> None:
    keep(store, "run", "text")
    until = store.kept_roots()["run"].until
    wall.time += timedelta(days=5)
    assert store.kept_roots()["run"].until == until


def test_each_use_begins_it_anew(store: Store, wall: Wall) -> None:
    keep(store, "run", "text")
    before = store.kept_roots()["run"].until
    wall.time += timedelta(days=10)
    store.note_use("run")
    assert store.kept_roots()["run"].until - before > timedelta(days=9)


def test_a_root_that_must_be_kept_is_removed_and_moved_with_force_only(store: Store) -> None:
    keep(store, "run", "text")
    other = Root(write_text(store, "other"))
    ways: tuple[Callable[..., None], ...] = (
        lambda **force: store.remove_root("run", **force),
        lambda **force: store.set_root("run", other, **force),
    )
    for way in ways:
        with pytest.raises(RetainedRootError, match="the root 'run' is kept until") as refused:
            way()
        assert "the manifest m" in str(refused.value.cause)
        assert "--force" in str(refused.value.hint)
    store.set_root("run", other, force=True)
    assert store.root("run") is not None
    keep(store, "more", "text")
    store.remove_root("more", force=True)
    assert store.root("more") is None


def test_the_same_thing_may_be_kept_anew_without_force(store: Store) -> None:
    root = keep(store, "run", "text")
    store.set_root("run", replace(root, label="more"))
    assert store.kept_roots().keys() == {"run"}


def test_a_promise_is_not_dropped_by_setting_the_same_thing_without_it(store: Store) -> None:
    root = keep(store, "run", "text")
    for days, stay, by in (
        (None, 30, "the manifest m"),
        (7, 30, "the manifest m"),
        (30, 30, "the manifest m"),
        (90, 90, "another"),
    ):
        asked = None if days is None else Retention(days, "another")
        store.set_root("run", replace(root, automatic=False, retention=asked))
        found = store.root("run")
        assert found is not None
        assert found.retention is not None
        assert found.retention == Retention(stay, by)
        with pytest.raises(RetainedRootError):
            store.remove_root("run")
    store.set_root("run", replace(root, retention=None), force=True)
    store.remove_root("run")


def test_a_result_link_says_nothing_of_it(store: Store) -> None:
    root = keep(store, "run", "text")
    link = store.path.parent / "link"
    store.add_result_link(link, root)
    (found,) = store.result_links()
    assert (found.root.retention, found.root.include) == (None, ())
