"""Many processes and threads share a store, some of them collecting garbage."""

import threading
from functools import partial
from pathlib import Path

import pytest

from auditing import audit
from builds import build_of, key_of
from dis_store import Digest, Root, Store
from processes import at_once
from trees import Blob, write_text, write_tree


def test_processes_that_write_the_same_tree_get_the_same_object(tmp_path: Path) -> None:
    path = tmp_path / "store"

    def write(number: int) -> None:
        with Store.open(path) as store:
            for turn in range(10):
                inner = write_text(store, f"inner {turn}")
                same = write_tree(store, {"f": Blob(b"%d" % turn)}, {"r": (inner, None)})
                own = write_tree(store, {"f": Blob(b"%d" % number)}, {"r": (same, None)})
                assert store.read_bytes(own, "r/r/text") == f"inner {turn}".encode()

    at_once([partial(write, number) for number in range(4)])
    with Store.open(path) as store:
        assert len(store.objects()) == 10 + 10 + 4 * 10
        assert store.verify(jobs=2).ok
    assert audit(path) == []


def work_and_collect(path: Path, workers: int, turns: int) -> None:
    """Realise the same builds in many processes while one collects, and check what each of them holds."""

    def realise(number: int) -> None:
        with Store.open(path) as store:
            for turn in range(turns):
                realise_one(store, turn)
                if turn % 5 == number % 5:
                    out = store.chosen(key_of(f"build {turn}"))
                    assert out is not None
                    store.set_root(f"run {number}", Root(out.outputs["out"], key=out.key))

    def collect() -> None:
        with Store.open(path) as store:
            for _ in range(turns):
                store.collect_garbage()
                store.verify(jobs=1)

    at_once([*(partial(realise, number) for number in range(workers)), collect])
    with Store.open(path) as store:
        assert store.verify(jobs=2).ok
        store.collect_garbage()
        assert store.verify(jobs=2).ok
        for root in store.roots().values():
            assert root.key is not None
            assert store.chosen(root.key) is not None
    assert audit(path) == []


def realise_one(store: Store, turn: int) -> Digest:
    """Build a key as a realiser does, and use what came out."""
    name = f"build {turn}"
    with store.build_lock(key_of(name)):
        found = store.chosen(key_of(name))
        if found is None:
            inner = write_text(store, f"inner {turn}")
            log = write_text(store, f"log {turn}")
            out = write_tree(store, {"n": Blob(b"%d" % turn)}, {"r": (inner, None)})
            derivation = store.add_derivation(b'{"format":1,"n":%d,"type":"derivation"}' % turn)
            found = store.add_realisation(
                build_of(name, {"out": out, "log": log}, derivation=derivation)
            )
            store.remember_plan(key_of(f"plan {turn}"), "value", [out])
    out = found.outputs["out"]
    assert store.read_bytes(out, "r/text") == f"inner {turn}".encode()
    assert (store.object_path(out) / "r" / "text").read_text() == f"inner {turn}"
    assert store.tree(found.outputs["log"]).files
    return out


def test_realisers_and_a_collector_do_not_disturb_each_other(tmp_path: Path) -> None:
    work_and_collect(tmp_path / "store", workers=4, turns=10)


@pytest.mark.slow
def test_twelve_realisers_and_a_collector_do_not_disturb_each_other(tmp_path: Path) -> None:
    work_and_collect(tmp_path / "store", workers=12, turns=40)


def test_threads_share_one_open_store(store: Store) -> None:
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(8):
                realise_one(store, turn)
                store.set_root(f"run {number}", Root(write_text(store, f"{number}.{turn}")))
                if turn == number:
                    store.collect_garbage()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test reports it
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert store.verify(jobs=2).ok
    store.close()
    assert audit(store.path) == []


def test_a_child_may_use_a_store_that_was_opened_before_the_fork(store: Store) -> None:
    digest = write_text(store, "x")

    def child() -> None:
        assert store.protect(digest)
        write_text(store, "y")

    at_once([child, child])
    assert len(store.objects()) == 2
    assert store.verify(jobs=1).ok
