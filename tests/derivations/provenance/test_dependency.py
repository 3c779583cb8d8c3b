"""Chains of references."""

import pytest

from built_store import Built
from dis_derivations.provenance.dependency import Reference, chain_of_references
from dis_store.digest import Digest
from dis_store.errors import IntegrityError


def test_a_chain_names_the_entries_that_refer(built: Built) -> None:
    chain = chain_of_references(built.store, built.result, built.part)
    assert chain == (Reference(built.part, ("a/value", "b")),)


def test_a_chain_leads_through_objects_and_is_a_shortest_one(built: Built) -> None:
    with built.store.new_tree() as tree:
        tree.reference("inner", built.result)
        top = tree.register()
    chain = chain_of_references(built.store, top, built.part)
    assert chain is not None
    assert [step.object for step in chain] == [built.result, built.part]
    with built.store.new_tree() as tree:
        tree.reference("inner", built.result)
        tree.reference("short", built.part)
        both = tree.register()
    assert chain_of_references(built.store, both, built.part) == (
        Reference(built.part, ("short",)),
    )


def test_an_object_leads_to_itself_by_no_step(built: Built) -> None:
    assert chain_of_references(built.store, built.part, built.part) == ()


def test_what_a_build_was_made_from_is_no_reference(built: Built) -> None:
    assert chain_of_references(built.store, built.result, built.source) is None
    assert chain_of_references(built.store, built.part, built.result) is None


def test_an_object_that_is_not_there_has_no_chain(built: Built) -> None:
    with pytest.raises(IntegrityError):
        chain_of_references(built.store, Digest("0" * 64), built.part)
