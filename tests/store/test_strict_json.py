import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dis_store import InvalidInputError
from dis_store.canonical_json import encode
from dis_store.strict_json import MAX_DEPTH, decode

SAFE = 2**53 - 1


def unsafe(number: float) -> bool:
    """Tell whether canonical JSON writes the number as an integer that strict JSON refuses."""
    return SAFE < abs(number) < 1e21


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-SAFE, SAFE)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not unsafe(number))
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)

REFUSED = {
    "a byte order mark": (b"\xef\xbb\xbf{}", "byte order mark"),
    "UTF-16": ("{}".encode("utf-16"), "UTF-16"),
    "UTF-16 without a mark": ("{}".encode("utf-16-le"), "UTF-16"),
    "UTF-32": ("{}".encode("utf-32-be"), "UTF-16 or UTF-32"),
    "UTF-16 without a zero": (b"\xff\xfe" + "中文".encode("utf-16-le"), "UTF-16"),
    "UTF-16 the other way round": (b"\xfe\xff" + "中文".encode("utf-16-be"), "UTF-16"),
    "a zero in a text": (b'"abc\x00"', "control character"),
    "a second of several keys": (b'{"a":1,"b":2,"b":3}', "the key 'b' appears twice"),
    "Latin-1": (b'{\n"a": "\xe9"}', "line 2"),
    "a key that is there twice": (b'{"a":1,"a":1}', "twice"),
    "a key that an escape repeats": (b'{"a":1,"\\u0061":2}', "twice"),
    "NaN": (b"[NaN]", "NaN"),
    "Infinity": (b"[-Infinity]", "-Infinity"),
    "an integer beyond doubles": (b"9007199254740992", "2^53"),
    "a very long integer": (b"1" * 5000, "2^53"),
    "a number beyond doubles": (b"1e400", "too large"),
    "a number that is an integer beyond doubles": (b"1e16", "2^53"),
    "half a surrogate pair": (b'["\\ud800"]', "surrogate"),
    "half a surrogate pair as a key": (b'{"\\udc00":1}', "surrogate"),
    "a raw surrogate": (b'"\xed\xa0\x80"', "not UTF-8"),
    "deep nesting": (b"[" * 100_000 + b"]" * 100_000, "deeper"),
    "two values": (b"{} {}", "column 4"),
    "nothing": (b"", "column 1"),
    "a comment": (b"{} // why", "column"),
    "a control character": (b'"\x01"', "control character"),
    "a trailing comma": (b"[1,]", "column"),
    "single quotes": (b"{'a':1}", "column"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_two_readers_could_read_differently_is_refused(name: str) -> None:
    data, reason = REFUSED[name]
    with pytest.raises(InvalidInputError) as refusal:
        decode(data, name="the document")
    assert str(refusal.value).startswith("the document is not valid JSON")
    assert reason in str(refusal.value)


PLACES = {
    "a byte order mark": (b"\xef\xbb\xbf{}", "line 1, column 1"),
    "UTF-16": ("{}".encode("utf-16"), "line 1, column 1"),
    "a byte that is no text": ('{\n"ä": "'.encode() + b'\xe9"}', "line 2, column 7"),
    "a key that is there twice": (b'{"a": {"b": 1},\n "c": 2,\n "a": 3}', "line 3, column 2"),
    "a key that an escape repeats": (b'{"a":1, "\\u0061":2}', "line 1, column 9"),
    "the inner one of two objects": (b'{"a":1,"a":{"b":1,"b":2}}', "line 1, column 19"),
    "a key as its value, before": (b'{"a":"a","b":"a", "a":1}', "line 1, column 19"),
    "a constant that a string holds, before": (b'["NaN",\n NaN]', "line 2, column 2"),
    "a number that a string holds, before": (b'["1e400", 1e400]', "line 1, column 11"),
    "an integer that is part of another": (b"[9007, 9007199254740992]", "line 1, column 8"),
    "a number of many digits": (b"[\n" + b"1" * 5000 + b"]", "line 2, column 1"),
    "depth": (b"[\n" + b"[" * 100, "line 2, column 64"),
    "half a surrogate pair": (b'["\\ud83d\\ude00",\n "\\ud83d"]', "line 2, column 2"),
    "half a surrogate pair as a key": (b'{"a": 1, "\\udc00": 1}', "line 1, column 10"),
    "a comma too many": (b"[1,\n]", "line 2, column 1"),
    "a string that does not end": (b'{"a":1,"a":2}, "', "line 1, column 8"),
}


@pytest.mark.parametrize("name", PLACES)
def test_what_is_refused_is_refused_with_its_place(name: str) -> None:
    data, place = PLACES[name]
    with pytest.raises(InvalidInputError) as refusal:
        decode(data, name="the document")
    assert str(refusal.value.cause).startswith(f"{place}: ")


@given(st.dictionaries(st.text(), VALUES, min_size=1, max_size=4), st.data())
def test_a_repeated_key_is_found_wherever_it_is(
    value: dict[str, object], data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(value)))
    text = json.dumps(value)[:-1] + ",\n" + json.dumps(key) + ": 0}"
    with pytest.raises(InvalidInputError, match="line 2, column 1: the key"):
        decode(text.encode(), name="the document")


@given(VALUES)
@example({"\U00010000": 1, "\uffff": 2})
def test_canonical_json_reads_back_as_what_was_written(value: object) -> None:
    assert decode(encode(value), name="a value") == value


@given(VALUES)
def test_any_encoding_reads_as_the_standard_library_reads_it(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=2)):
        assert decode(text.encode(), name="a value") == json.loads(text)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        value = decode(data, name="some bytes")
    except InvalidInputError:
        return
    assert value == json.loads(data)


@given(st.text(alphabet='[]{}",:\\ u0d8a1e+-.', max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        value = decode(text.encode(), name="some text")
    except InvalidInputError:
        return
    assert value == json.loads(text)
    assert decode(encode(value), name="what was read") == value


@pytest.mark.parametrize("text", ["9007199254740991.0", "-9007199254740991.0", "1e21", "-1e21"])
def test_a_float_at_the_edge_of_what_canonical_json_can_say_is_read(text: str) -> None:
    value = decode(text.encode(), name="a value")
    assert value == float(text)
    assert decode(encode(value), name="what was written") == value


@pytest.mark.parametrize(
    ("text", "shown"),
    [("1" * 24, "1" * 24), ("1" * 25, "1" * 24 + "…"), ("1" * 5000, "1" * 24 + "…")],
)
def test_a_refused_number_is_shown_no_longer_than_a_line_can_hold(text: str, shown: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        decode(text.encode(), name="the document")
    assert f"the integer {shown} is beyond" in str(refusal.value.cause)


def test_brackets_in_strings_are_no_nesting() -> None:
    text = json.dumps(["[" * 1000 + '\\"{{{'])
    assert decode(text.encode(), name="a value") == json.loads(text)


def test_the_deepest_nesting_allowed_is_read() -> None:
    data = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert encode(decode(data, name="a value")) == data


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def test_what_lies_side_by_side_is_not_nested() -> None:
    beside = b"[],{}," * MAX_DEPTH
    data = b"[" + beside + nested(MAX_DEPTH - 1) + b"]"
    assert encode(decode(data, name="a value")) == data
    for deeper in (
        b"[" + beside + nested(MAX_DEPTH) + b"]",
        b'{"a":' + nested(MAX_DEPTH) + b"}",
        b"[" * (MAX_DEPTH - 1) + b"[],[[]]" + b"]" * (MAX_DEPTH - 1),
        b"[" + nested(MAX_DEPTH - 1) + b"," + nested(MAX_DEPTH) + b"]",
    ):
        with pytest.raises(InvalidInputError, match="deeper than 64 levels"):
            decode(deeper, name="a value")


@pytest.mark.parametrize("data", ["{}".encode("utf-16"), b"\xef\xbb\xbf{}", b'"\xe9"'])
def test_what_to_do_about_another_encoding_is_said(data: bytes) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        decode(data, name="the document")
    assert "save the file as UTF-8 without a byte order mark" in str(refusal.value.hint)


def test_another_error_can_be_asked_for() -> None:
    class LockRefusedError(InvalidInputError):
        pass

    with pytest.raises(LockRefusedError):
        decode(b"{", name="a lock", error=LockRefusedError)


@pytest.mark.parametrize("value", [2**53, float("nan"), float("inf"), "\ud800", {1: 2}, object()])
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(InvalidInputError):
        encode(value)


def test_keys_are_sorted_by_utf_16_units() -> None:
    assert encode({"\uffff": 1, "\U00010000": 2}) == '{"\U00010000":2,"\uffff":1}'.encode()


def test_a_document_has_at_most_so_many_objects_and_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dis_store.strict_json.MAX_CONTAINERS", 4)
    assert decode(b'[{},[],{"a":1}]', name="it") == [{}, [], {"a": 1}]
    with pytest.raises(InvalidInputError, match=r"line 2, column 5: it has more than 4 objects"):
        decode(b'[{},[],{"a":\n"[",[]}]', name="it")
    monkeypatch.setattr("dis_store.strict_json.MAX_CONTAINERS", MAX_DEPTH)
    deepest = nested(MAX_DEPTH)
    with pytest.raises(InvalidInputError, match="it has more than 64 objects"):
        decode(deepest[: MAX_DEPTH + 1] + b",[]" + deepest[MAX_DEPTH + 1 :], name="it")
