"""Which roots keep an object: as the garbage collection sees it."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from built_store import Built
from dis_derivations.provenance.liveness import keepers
from dis_store import Root, Store
from store_graphs import StoreGraph, graphs, make


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("result", [("root", "")]),
        ("part", [("root", ""), ("reference", "a/value, b")]),
        ("log", [("root", ""), ("output", "log")]),
        ("source", [("root", ""), ("input", "weights")]),
        ("origin", [("root", ""), ("input", "weights"), ("input", "origin")]),
    ],
)
def test_a_root_keeps_what_it_names_and_what_that_was_built_from(
    built: Built, name: str, ways: list[tuple[str, str]]
) -> None:
    (keeper,) = keepers(built.store, getattr(built, name))
    assert (keeper.root, keeper.kind) == ("mine", "named")
    assert [(step.how, step.name) for step in keeper.steps] == ways
    assert keeper.steps[-1].object == getattr(built, name)


def test_what_is_kept_here_is_what_a_collection_keeps(built: Built) -> None:
    with built.store.new_tree() as tree:
        tree.write_bytes("value", b"nobody's")
        loose = tree.register()
    built.store.close()  # what a process wrote is kept for as long as it has the store open
    with Store.open(built.store.path) as store:
        freed = {each.digest for each in store.collect_garbage(dry_run=True).objects}
        assert freed == {each for each in store.objects() if not keepers(store, each)} == {loose}


def test_named_roots_come_before_links_and_automatic_ones(built: Built, tmp_path: Path) -> None:
    built.store.set_root("auto", Root(built.result, automatic=True))
    built.store.set_root("zz", Root(built.result))
    built.store.add_result_link(tmp_path / "result", Root(built.result))
    found = [(each.root, each.kind) for each in keepers(built.store, built.part)]
    assert found == [
        ("mine", "named"),
        ("zz", "named"),
        (str(tmp_path / "result"), "link"),
        ("auto", "automatic"),
    ]


def test_a_link_that_is_gone_keeps_nothing(built: Built, tmp_path: Path) -> None:
    built.store.add_result_link(tmp_path / "result", Root(built.origin))
    assert len(keepers(built.store, built.origin)) == 2
    (tmp_path / "result").unlink()
    assert len(keepers(built.store, built.origin)) == 1


@settings(max_examples=25, deadline=None)
@given(graphs())
def test_what_has_a_keeper_stays_and_everything_else_goes(graph: StoreGraph) -> None:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "store"
        make(graph, place)
        with Store.open(place) as store:
            found = {each: keepers(store, each) for each in store.objects()}
            for each, ways in found.items():
                for keeper in ways:
                    first, *_, last = (keeper.steps[0], *keeper.steps)
                    assert (first.how, first.object) == ("root", store.roots()[keeper.root].object)
                    assert last.object == each
            gone = {each.digest for each in store.collect_garbage().objects}
            assert gone == {each for each, ways in found.items() if not ways}
            assert set(store.objects()) == {each for each, ways in found.items() if ways}
