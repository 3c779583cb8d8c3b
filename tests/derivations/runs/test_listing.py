"""The runs of a store, as people look for them."""

import pytest

from bundles import Answer, Run, Tensor
from dis_derivations.runs.listing import list_runs, newest_two
from dis_store import Root, Store
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError
from run_shelf import Shelf, add_object


def answering(token: int) -> Run:
    return Run(answers=(Answer("first", (token,)),))


def test_an_empty_store_has_no_runs(store: Store) -> None:
    assert list_runs(store) == []


def test_a_run_is_listed_with_what_people_look_for(shelf: Shelf) -> None:
    run = answering(1).having(name="demo", logits={"00000.decode": Tensor([1.0])})
    run = run.with_manifest(vllm={"engine_args": {"model": "example/model"}})
    digest = shelf.add(run, "demo.1", finished_at="2026-02-03T04:05:06.789+00:00")
    (found,) = list_runs(shelf.store)
    assert (found.bundle, found.names, found.model) == (digest, ("demo.1",), "example/model")
    assert (found.date, found.engine) == ("2026-02-03T04:05:06.789+00:00", "reference")
    assert (found.grade, found.problem) == ("conformant", None)
    assert found.size == sum(len(data) for data in run.files().values())


def test_the_newest_comes_first_whatever_its_name(shelf: Shelf) -> None:
    old = shelf.add(answering(1), "z", finished_at="2026-01-01T00:00:00.000+00:00")
    new = shelf.add(answering(2), "a", finished_at="2026-01-01T00:00:00.001+00:00")
    assert [run.bundle for run in list_runs(shelf.store)] == [new, old]
    assert [run.bundle for run in newest_two(shelf.store)] == [old, new]


def test_two_names_of_one_run_are_one_line_and_the_given_name_comes_first(shelf: Shelf) -> None:
    digest = shelf.add(answering(1), "named")
    shelf.store.set_root("example.00000000", Root(digest, automatic=True))
    (found,) = list_runs(shelf.store)
    assert found.names == ("named", "example.00000000")


def test_roots_of_other_objects_are_not_listed(shelf: Shelf) -> None:
    shelf.store.set_root("other", Root(add_object(shelf.store, {"value": b"1"})))
    assert list_runs(shelf.store) == []


@pytest.mark.parametrize("document", [b"{", b"{}", b"[]", b'{"run_id":1,"engine":{}}'])
def test_a_damaged_run_is_listed_with_its_problem_and_hides_no_other(
    shelf: Shelf, document: bytes
) -> None:
    whole = shelf.add(answering(1), "whole")
    broken = add_object(shelf.store, {"bundle.json": document, "manifest.used.json": b"{}"})
    shelf.store.set_root("broken", Root(broken))
    found = {run.bundle: run for run in list_runs(shelf.store)}
    assert found[broken].grade == "damaged"
    assert found[broken].problem
    assert found[whole].problem is None
    with pytest.raises(InvalidInputError, match="no two runs"):
        newest_two(shelf.store)


def test_a_run_without_a_record_is_as_old_as_its_root(store: Store) -> None:
    digest: Digest = add_object(store, answering(1).files())
    store.set_root("pulled", Root(digest, created_at="2026-05-05T05:05:05+00:00"))
    assert list_runs(store)[0].date == "2026-05-05T05:05:05+00:00"
