import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.manifest import json_pointer
from dis_derivations.manifest.json_positions import Position, find_position

TEXT = """{
  "a": {"b": [1,
    {"c\\u0022": "x"}]},
  "d": "\\"}{[],:"
}"""

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def test_a_member_is_found_at_its_key_and_an_item_at_itself() -> None:
    assert find_position(TEXT, "") == Position(1, 1)
    assert find_position(TEXT, "/a") == Position(2, 3)
    assert find_position(TEXT, "/a/b") == Position(2, 9)
    assert find_position(TEXT, "/a/b/1") == Position(3, 5)
    assert find_position(TEXT, '/a/b/1/c"') == Position(3, 6)
    assert find_position(TEXT, "/d") == Position(4, 3)
    assert find_position(TEXT, "/e") is None


@given(_VALUES, st.sampled_from([None, 2]))
def test_every_member_of_any_document_has_a_position(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    lines = text.split("\n")
    for pointer, member in _members(value, ""):
        position = find_position(text, pointer)
        assert position is not None
        rest = "\n".join([lines[position.line - 1][position.column - 1 :], *lines[position.line :]])
        written, _ = json.JSONDecoder().raw_decode(rest)
        key = json_pointer.tokens(pointer)[-1:] if isinstance(written, str) else []
        assert written in [member, *key]


def _members(value: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    yield pointer, value
    if isinstance(value, list):
        value = {str(index): item for index, item in enumerate(value)}
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _members(item, json_pointer.child(pointer, key))
