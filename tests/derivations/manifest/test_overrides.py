from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.manifest import json_pointer
from dis_derivations.manifest.overrides import apply_override, parse_override
from dis_store import canonical_json
from dis_store.errors import InvalidInputError

_NAMES = st.text(st.characters(codec="ascii", categories=["L", "Nd"]), min_size=1).filter(
    lambda name: not name.isdecimal()
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=5,
)


def set_in(document: dict[str, Any], text: str) -> dict[str, Any]:
    return apply_override(document, parse_override(text))


@given(st.lists(_NAMES, min_size=1, max_size=4), _VALUES)
def test_what_is_set_can_be_read_back(names: list[str], value: Any) -> None:
    if names[0] == "x_base_manifest":
        return
    text = f"{'.'.join(names)}={canonical_json.encode(value).decode()}"
    document = set_in({}, text)
    assert json_pointer.get(document, json_pointer.from_tokens(names)) == value


@given(_VALUES)
def test_the_document_it_applies_to_is_left_alone(value: Any) -> None:
    document = {"a": {"b": [1, 2]}, "c": value}
    before = canonical_json.encode(document)
    set_in(document, "a.b.0=9")
    set_in(document, "a.x.y=9")
    assert canonical_json.encode(document) == before


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ("-1.5", -1.5),
        ("true", True),
        ("null", None),
        ('"4"', "4"),
        ('{"x": [1]}', {"x": [1]}),
        ("word", "word"),
        ("", ""),
        ("a=b", "a=b"),
        ("True", "True"),
        ("NaN", "NaN"),
        ("1e999", "1e999"),
        ('{"a":1,"a":2}', '{"a":1,"a":2}'),
        ("sha256:00", "sha256:00"),
        ("[INST] hi", "[INST] hi"),
    ],
)
def test_a_value_is_strict_json_or_else_a_string(text: str, value: Any) -> None:
    found = set_in({}, f"a={text}")["a"]
    assert found == value
    assert type(found) is type(value)


def test_items_of_lists_are_named_by_index_and_the_next_index_appends() -> None:
    document = {"requests": [{"id": "a"}, {"id": "b"}]}
    assert set_in(document, "requests.1.id=x")["requests"] == [{"id": "a"}, {"id": "x"}]
    assert set_in(document, "requests.2.id=x")["requests"][2] == {"id": "x"}
    assert set_in(document, "requests.2=x")["requests"][2] == "x"
    assert set_in({}, "requests.0.id=x") == {"requests": [{"id": "x"}]}


def test_a_json_pointer_names_members_whose_names_hold_dots() -> None:
    assert set_in({}, "/env/A.B=1") == {"env": {"A.B": 1}}


@pytest.mark.parametrize(
    "text", ["=1", "a..b=1", ".a=1", "a.=1", "/=1", "/a//b=1", "a." * 64 + "a=1"]
)
def test_an_override_without_a_field_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="names no field"):
        parse_override(text)


@pytest.mark.parametrize("text", ["", "a", "a.b", "/a"])
def test_an_override_without_a_value_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="has no '=' and no value"):
        parse_override(text)


def test_an_override_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="is not UTF-8"):
        parse_override("metadata.description=\udcff")


@pytest.mark.parametrize("text", ["l.2=1", "l.x=1", "l.-1=1", "l.5.id=1", "s.x=1", "s.x.y=1"])
def test_an_override_that_leads_nowhere_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="leads nowhere"):
        set_in({"l": [1], "s": "text"}, text)


def test_the_base_cannot_be_overridden_because_it_is_merged_before() -> None:
    with pytest.raises(InvalidInputError, match="cannot change x_base_manifest"):
        parse_override("x_base_manifest=other.json")
