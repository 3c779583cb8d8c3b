"""Documents that two JSON parsers read differently are refused by every reader, with the place of what is wrong."""

import json
import re
from collections.abc import Callable

import pytest

from dis_store.errors import DisError
from parsers import PARSERS

READERS = [name for name, parser in PARSERS.items() if parser.json]
_PLACE = re.compile(r"line \d+, column \d+")


def _member(value: bytes) -> Callable[[bytes], bytes]:
    """Put a member in front of all others."""
    return lambda seed: b'{"x":%s,%s' % (value, seed.lstrip()[1:])


def _after(text: bytes) -> Callable[[bytes], bytes]:
    return lambda seed: seed.rstrip() + text


def _first_key(seed: bytes) -> str:
    return str(next(iter(json.loads(seed))))


def _key_twice(seed: bytes) -> bytes:
    return b"{%s:0,%s" % (json.dumps(_first_key(seed)).encode(), seed.lstrip()[1:])


def _key_twice_as_an_escape(seed: bytes) -> bytes:
    key = _first_key(seed)
    return b'{"\\u%04x%s":0,%s' % (ord(key[0]), key[1:].encode(), seed.lstrip()[1:])


def _inner_key_twice(seed: bytes) -> bytes:
    return _member(b'{"a":[{"k":1,"k":1}]}')(seed)


DISAGREEMENTS: dict[str, Callable[[bytes], bytes]] = {
    "a key twice (CVE-2017-12635)": _key_twice,
    "a key twice, once as an escape": _key_twice_as_an_escape,
    "a key twice, further in": _inner_key_twice,
    "NaN": _member(b"NaN"),
    "Infinity": _member(b"Infinity"),
    "minus Infinity": _member(b"-Infinity"),
    "an integer beyond 2^53": _member(b"9007199254740993"),
    "a negative integer beyond 2^53": _member(b"-9007199254740993"),
    "an integer of 64 bits": _member(b"18446744073709551615"),
    "an integer of thousands of digits": _member(b"1" * 5000),
    "an integer as a float beyond 2^53": _member(b"9007199254740993.0"),
    "an exponent beyond doubles": _member(b"1e999"),
    "an exponent of many digits": _member(b"1e99999999999999999999"),
    "a leading zero": _member(b"01"),
    "a plus sign": _member(b"+1"),
    "no digit before the point": _member(b".5"),
    "no digit after the point": _member(b"1."),
    "a hexadecimal number": _member(b"0x10"),
    "a number with underscores": _member(b"1_000"),
    "a lone surrogate": _member(b'"\\ud800"'),
    "a lone low surrogate": _member(b'"\\udfff"'),
    "surrogates the wrong way round": _member(b'"\\udc00\\ud800"'),
    "a lone surrogate as a key": _member(b'{"\\ud800":0}'),
    "a surrogate as bytes": _member(b'"\xed\xa0\x80"'),
    "overlong UTF-8": _member(b'"\xc0\xae"'),
    "UTF-8 beyond Unicode": _member(b'"\xf4\x90\x80\x80"'),
    "Latin-1": _member(b'"\xe9"'),
    "a byte order mark": lambda seed: b"\xef\xbb\xbf" + seed,
    "UTF-16": lambda seed: seed.decode().encode("utf-16"),
    "UTF-16 without a mark": lambda seed: seed.decode().encode("utf-16-le"),
    "UTF-16 the other way": lambda seed: seed.decode().encode("utf-16-be"),
    "UTF-32": lambda seed: seed.decode().encode("utf-32"),
    "65 levels": _member(b"[" * 65 + b"]" * 65),
    "a hundred thousand levels": _member(b"[" * 100_000 + b"]" * 100_000),
    "a hundred thousand levels that do not end": _member(b'{"a":' * 100_000),
    "a comma too many in a list": _member(b"[1,]"),
    "a comma too many in an object": _member(b'{"a":1,}'),
    "a comma too few": _member(b"[1 2]"),
    "a comma in front": _member(b"[,1]"),
    "a comment to the end of the line": _member(b"1 // why\n"),
    "a comment in the middle": _member(b"/* why */ 1"),
    "a comment of another kind": _member(b"1 # why\n"),
    "single quotes": _member(b"'a'"),
    "a key without quotes": _member(b"{a:1}"),
    "a word without quotes": _member(b"yes"),
    "a capital": _member(b"True"),
    "nothing": _member(b""),
    "undefined": _member(b"undefined"),
    "a new line in a string": _member(b'"a\nb"'),
    "a null in a string": _member(b'"a\0b"'),
    "a tab in a string": _member(b'"a\tb"'),
    "an escape that there is not": _member(b'"\\x41"'),
    "a short escape": _member(b'"\\u41"'),
    "an escaped new line": _member(b'"a\\\nb"'),
    "a string that does not end": lambda seed: _member(b'"a')(b"{}"),
    "white space of Unicode": _member(b"\xc2\xa0 1"),
    "a form feed": _member(b"\f1"),
    "two documents": lambda seed: seed.rstrip() + b" " + seed,
    "a document a line": _after(b"\n{}\n"),
    "something after it": _after(b"x"),
    "a bracket too many": _after(b"}"),
    "a bracket too few": lambda seed: seed.rstrip()[:-1],
    "a null after it": _after(b"\0"),
    "an end of file as of DOS": _after(b"\x1a"),
    "no bytes": lambda _: b"",
    "only white space": lambda _: b" \n\t",
    "a prefix against hijacking": lambda seed: b")]}',\n" + seed,
    "a callback": lambda seed: b"x(" + seed + b")",
}


@pytest.mark.parametrize("disagreement", DISAGREEMENTS)
def test_what_parsers_disagree_on_is_refused_by_every_reader(disagreement: str) -> None:
    for name in READERS:
        for seed in PARSERS[name].seeds:
            data = DISAGREEMENTS[disagreement](seed)
            with pytest.raises(DisError) as refused:
                PARSERS[name].read(data)
            assert _PLACE.search(str(refused.value)), f"{name}: {refused.value}"


def test_most_of_these_are_read_by_some_parser_or_other() -> None:
    """The parser of the standard library alone takes a good part of them, and takes some for what they are not."""
    taken = []
    for name, change in DISAGREEMENTS.items():
        try:
            json.loads(change(b'{"a":1}'))
        except (ValueError, RecursionError):
            continue
        taken.append(name)
    assert len(taken) >= 18
    assert "a key twice (CVE-2017-12635)" in taken
    assert "UTF-16" in taken
