from builds import key_of
from dis_store import Digest, Store, durability
from trees import write_text

KEY = key_of("a")


def test_a_plan_is_recalled_while_its_objects_are_there(store: Store) -> None:
    one, other = write_text(store, "one"), write_text(store, "other")
    store.remember_plan(KEY, '{"any":"text"}', [one, other, one])
    assert store.recall_plan(KEY) == '{"any":"text"}'
    durability.remove_tree(store.object_path(other))
    assert store.recall_plan(KEY) is None


def test_an_unknown_plan_is_not_recalled(store: Store) -> None:
    assert store.recall_plan(KEY) is None


def test_a_plan_for_what_was_never_there_is_not_recalled(store: Store) -> None:
    store.remember_plan(KEY, "value", [Digest.of(b"nothing")])
    assert store.recall_plan(KEY) is None


def test_a_plan_that_rests_on_nothing_is_recalled(store: Store) -> None:
    store.remember_plan(KEY, "", [])
    assert store.recall_plan(KEY) == ""


def test_a_later_plan_takes_the_place_of_an_earlier(store: Store) -> None:
    one, other = write_text(store, "one"), write_text(store, "other")
    store.remember_plan(KEY, "first", [one])
    store.remember_plan(KEY, "second", [other])
    assert store.recall_plan(KEY) == "second"
    durability.remove_tree(store.object_path(one))
    assert store.recall_plan(KEY) == "second"
