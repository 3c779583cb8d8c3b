"""Equal values are equal bytes, whichever way they are written."""

import hashlib
import math
import sys

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from dis_store import Digest, InvalidInputError, canonical_json

# Strings and keys that the two ways could take differently: controls, quotes, beyond ASCII, beyond 16 bits.
_TEXTS = st.text(
    alphabet=st.sampled_from('ab"\\/\x00\x08\x0c\n\r\t\x1f\x7f\x85é\u2028\uffff🜁'), max_size=5
)
_NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
_LEAVES = st.none() | st.booleans() | _TEXTS | st.text(max_size=3) | _NUMBERS
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(_VALUES)
def test_any_value_is_written_as_rfc_8785_says(value: object) -> None:
    try:
        expected = rfc8785.dumps(value)  # type: ignore[arg-type]
    except rfc8785.CanonicalizationError:
        with pytest.raises(InvalidInputError):
            canonical_json.encode(value)
        return
    assert canonical_json.encode(value) == expected


def test_digests_and_tuples_are_written_as_what_they_are() -> None:
    digest = Digest("a" * 64)
    assert canonical_json.encode({"d": (digest, True), "a": 1}) == (
        b'{"a":1,"d":["' + b"a" * 64 + b'",true]}'
    )


def test_our_own_documents_are_written_without_the_library_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "rfc8785", None)
    value = {"b": [None, True, 2**53 - 1, 1 - 2**53, "é", ("t",)], "a": {"c": False}}
    expected = '{"a":{"c":false},"b":[null,true,9007199254740991,-9007199254740991,"é",["t"]]}'
    assert canonical_json.encode(value) == expected.encode()
    assert canonical_json.encode("text") == b'"text"'


def test_the_digests_of_a_value_are_those_of_its_one_encoding() -> None:
    value = {"b": 1.5, "a": ["é"]}
    data = '{"a":["é"],"b":1.5}'.encode()
    assert canonical_json.digest(value) == Digest.of(data)
    assert canonical_json.sha256(value) == f"sha256:{hashlib.sha256(data).hexdigest()}"


@pytest.mark.parametrize(
    "value", [2**53, -(2**53), math.nan, math.inf, "\ud800", {"\ud800": 1}, {1: 2}, b"x", {1, 2}]
)
def test_what_json_cannot_say_is_refused(value: object) -> None:
    with pytest.raises(InvalidInputError):
        canonical_json.encode({"inner": [value]})
