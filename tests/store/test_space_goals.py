"""How much a collection deletes when it is told how much is enough, and in which order."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from auditing import audit
from builds import build_of
from dis_store import CollectionReport, Digest, Input, RetirementPolicy, Root, SpaceGoal, Store
from trees import Blob, write_tree

EVERYTHING = RetirementPolicy(keep_last=0)


def of_size(store: Store, size: int, *references: Digest) -> Digest:
    """Register an object of so many bytes of its own."""
    data = f"{size:04}".encode() * (size // 4) + b"x" * (size % 4)
    return write_tree(
        store, {"f": Blob(data)}, {f"r{at}": (each, None) for at, each in enumerate(references)}
    )


@pytest.fixture
def sized(store: Store) -> Iterator[tuple[Store, dict[str, Digest]]]:
    """An orphan of 10 bytes, dead objects, and two automatic roots that share an object."""
    found = {name: of_size(store, size) for name, size in (("a", 100), ("b", 200), ("c", 300))}
    found["shared"] = of_size(store, 500)
    found["first"] = of_size(store, 1000, found["shared"])
    found["second"] = of_size(store, 2000, found["shared"])
    for name in ("first", "second"):
        store.set_root(name, Root(found[name], automatic=True))
    orphan = store.path / "objects" / "00" / ("00" + "0" * 62)
    orphan.mkdir(parents=True)
    (orphan / "file").write_bytes(b"0" * 10)
    store.close()
    with Store.open(store.path) as again:
        yield again, found


def gone(report: CollectionReport, found: dict[str, Digest]) -> set[str]:
    names = {digest: name for name, digest in found.items()}
    return {names[each.digest] for each in report.objects}


STEPS = [
    (0, "", 10),
    (10, "", 10),
    (11, "a", 110),
    (110, "a", 110),
    (111, "a b", 310),
    (310, "a b", 310),
    (311, "a b c", 610),
    (610, "a b c", 610),
    # What both keep goes with the one that was used later.
    (611, "a b c first", 1610),
    (1610, "a b c first", 1610),
    (1611, "a b c first second shared", 4110),
    (4110, "a b c first second shared", 4110),
    (4111, "a b c first second shared", 4110),
]


@pytest.mark.parametrize(("wanted", "names", "freed"), STEPS)
def test_no_more_goes_than_is_wanted_the_oldest_and_the_longest_unused_first(
    sized: tuple[Store, dict[str, Digest]], wanted: int, names: str, freed: int
) -> None:
    store, found = sized
    goal = SpaceGoal(max_freed=wanted)
    foretold = store.collect_garbage(dry_run=True, policy=EVERYTHING, goal=goal)
    report = store.collect_garbage(policy=EVERYTHING, goal=goal)
    for each in (foretold, report):
        assert (gone(each, found), each.freed_bytes) == (set(names.split()), freed)
        retired = tuple(name for name in ("first", "second") if name in names.split())
        assert each.retired_roots == retired
        assert each.reached == (freed >= wanted)
        assert each.wanted_bytes == wanted
    assert store.roots().keys() == {"first", "second"} - set(retired)
    assert set(store.objects()) == {found[name] for name in found.keys() - set(names.split())}
    assert audit(store.path) == []


def test_an_orphan_that_a_root_keeps_is_not_counted(
    sized: tuple[Store, dict[str, Digest]],
) -> None:
    store, found = sized
    with store._foundation.index.transaction() as transaction:
        transaction.execute("DELETE FROM objects WHERE digest = ?", (found["first"],))
    report = store.collect_garbage(policy=EVERYTHING, goal=SpaceGoal(max_freed=11))
    assert (gone(report, found), report.retired_roots) == ({"a"}, ())
    assert report.freed_bytes == 110


def test_inputs_that_are_given_up_count_before_any_root_goes(store: Store) -> None:
    given, out = of_size(store, 50), of_size(store, 60)
    unused = of_size(store, 70)
    build = store.add_realisation(build_of("a", {"out": out}, {"in": Input(given, None)}))
    store.set_root("kept", Root(out, key=build.key))
    store.set_root("automatic", Root(unused, automatic=True))
    store.close()
    with Store.open(store.path) as again:
        goal = SpaceGoal(max_freed=50)
        for drop_inputs, dead, retired in ((False, unused, ("automatic",)), (True, given, ())):
            report = again.collect_garbage(
                dry_run=True, policy=EVERYTHING, goal=goal, drop_inputs=drop_inputs
            )
            assert [each.digest for each in report.objects] == [dead]
            assert report.retired_roots == retired


def test_a_goal_that_is_reached_already_deletes_nothing_but_orphans(
    sized: tuple[Store, dict[str, Digest]],
) -> None:
    store, _ = sized
    for dry_run in (True, False):
        report = store.collect_garbage(dry_run=dry_run, goal=SpaceGoal(keep_free=1))
        assert (report.objects, report.retired_roots, report.wanted_bytes) == ((), (), 0)
        assert report.reached


def inodes(place: Path) -> int:
    rooms = [place / room for room in ("objects", "manifests", "links")]
    return len({path.lstat().st_ino for room in rooms for path in room.rglob("*")})


def test_at_least_so_many_inodes_are_freed_as_was_foretold(
    sized: tuple[Store, dict[str, Digest]],
) -> None:
    store, _ = sized
    foretold = store.collect_garbage(dry_run=True).freed_inodes
    before = inodes(store.path)
    report = store.collect_garbage()
    assert len(report.objects) == 3
    # Of each object its file, its directory and its manifest.
    assert 3 * 3 <= foretold <= before - inodes(store.path)
