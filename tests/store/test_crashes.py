"""A process is killed before each of its calls to the system, and the store must be sound afterwards."""

import random
from functools import partial
from pathlib import Path

import pytest

from auditing import audit
from dis_store import Realisation, Root, Store
from dis_store.writing import registration
from processes import kill_self, killed_before_call, killed_in
from trees import Blob, write_text, write_tree


def sound(path: Path) -> bool:
    """Tell whether a store that was just opened holds nothing half."""
    with Store.open(path) as store:
        left = [*path.joinpath("tmp").iterdir(), *path.joinpath("trash").iterdir()]
        return store.verify(jobs=1).problems == () and not left


def write_number(path: Path, number: int) -> None:
    with Store.open(path) as store:
        inner = write_text(store, f"inner {number}")
        write_tree(store, {"a/b": Blob(b"one"), "n": Blob(b"%d" % number)}, {"r": (inner, None)})


# The fast tests take a few of the moments, the slow ones all of them.
STRIDES = [7, pytest.param(1, marks=pytest.mark.slow)]


@pytest.mark.parametrize("stride", STRIDES)
def test_a_registration_may_be_killed_before_any_call(tmp_path: Path, stride: int) -> None:
    path = tmp_path / "store"
    write_number(path, 0)
    number = 0
    killed = True
    while killed:
        number += stride
        killed = killed_before_call(number, partial(write_number, path, number))
        assert sound(path), f"killed before call {number}"
        write_number(path, number)
        if number % 20 == 0:
            Store.open(path).collect_garbage()
    assert number > 100
    assert audit(path) == []


STEPS = ["_seal", "_seal_files", "write_new", "_place_tree", "_publish_manifest", "_enter_index"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_registration_that_is_killed_at_a_step_is_taken_back_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, moment: str
) -> None:
    path = tmp_path / "store"
    original = getattr(registration, step)

    def dying(*arguments: object, **options: object) -> None:
        if moment == "after":
            original(*arguments, **options)
        kill_self()

    with monkeypatch.context() as patched:
        patched.setattr(registration, step, dying)
        killed_in(lambda: write_number(path, 1))
    Store.open(path).close()
    assert audit(path) == []
    write_number(path, 1)
    assert audit(path) == []


@pytest.mark.parametrize("stride", STRIDES)
def test_a_new_store_may_be_killed_before_any_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    monkeypatch.setattr("dis_store.layout.RESERVE_BYTES", 4096)
    number = 0
    killed = True
    while killed:
        number += stride
        path = tmp_path / str(number)
        killed = killed_before_call(number, partial(write_number, path, 1))
        write_number(path, 1)
        assert sound(path), f"killed before call {number}"


def fill(store: Store) -> None:
    """Put in what a collection keeps, and what it deletes."""
    kept = write_tree(store, {"f": Blob(b"kept"), "shared": Blob(b"shared")})
    store.set_root("kept", Root(kept))
    dead = write_tree(store, {"f": Blob(b"dead"), "shared": Blob(b"shared")})
    above = write_tree(store, {}, {"r": (dead, None), "k": (kept, None)})
    derivation = store.add_derivation(b'{"format":1,"type":"derivation"}')
    store.add_realisation(
        Realisation(
            key=dead, builder="b", outputs={"out": above}, compared=("out",), inputs={},
            derivation=derivation, platform={}, origin="built", started_at="", finished_at="",
            host="h", user="u",
        )
    )  # fmt: skip


@pytest.mark.parametrize("stride", STRIDES)
def test_a_collection_may_be_killed_before_any_call(tmp_path: Path, stride: int) -> None:
    path = tmp_path / "store"
    number = 0
    killed = True
    while killed:
        with Store.open(path) as store:
            fill(store)
        number += stride
        killed = killed_before_call(number, lambda: Store.open(path).collect_garbage())
        with Store.open(path) as store:
            # Trees that lost their rows are orphans, some of them without what they refer to.
            kinds = {problem.kind for problem in store.verify(jobs=1).problems}
            orphaned = {"tree without row", "incomplete", "damaged manifest"}
            assert kinds <= orphaned, f"killed before call {number}: {kinds}"
            kept = store.root("kept")
            assert kept is not None
            assert store.read_bytes(kept.object, "shared") == b"shared"
    assert number > 50
    with Store.open(path) as store:
        store.collect_garbage()
        assert store.objects() == [root.object for root in store.roots().values()]
        assert len(store.objects()) == 1
    assert audit(path) == []


@pytest.mark.slow
def test_whatever_is_killed_whenever_the_store_stays_sound(tmp_path: Path) -> None:
    path = tmp_path / "store"
    chance = random.Random(20260229)  # noqa: S311 - which moment is no secret

    def work() -> None:
        with Store.open(path) as store:
            fill(store)
            write_text(store, str(chance.random()))
            store.collect_garbage()
            store.reindex()

    for _ in range(150):
        killed_before_call(chance.randrange(1, 500), work)
        chance.random()
    assert audit(path, orphans_allowed=True) == []
    with Store.open(path) as store:
        store.collect_garbage()
    assert audit(path) == []
