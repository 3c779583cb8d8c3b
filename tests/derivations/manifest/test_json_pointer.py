from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.manifest import json_pointer


@given(st.lists(st.text()))
def test_tokens_of_a_pointer_are_those_it_was_made_from(tokens: list[str]) -> None:
    assert json_pointer.tokens(json_pointer.from_tokens(tokens)) == tokens


def test_a_pointer_reaches_members_of_objects_and_lists() -> None:
    document = {"a/b": [{"~": 1}], "none": None}
    assert json_pointer.get(document, "/a~1b/0/~0") == 1
    assert json_pointer.get(document, "") == document
    assert json_pointer.exists(document, "/none")
    assert not json_pointer.exists(document, "/none/deeper")
    assert not json_pointer.exists(document, "/a~1b/1")
    assert not json_pointer.exists(document, "/a~1b/x")


def test_the_parent_of_a_pointer_is_its_container() -> None:
    assert json_pointer.parent("/a/0/b") == "/a/0"
    assert json_pointer.parent("/a") == ""
    assert json_pointer.child("", "a/b") == "/a~1b"
