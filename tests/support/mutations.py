"""Bytes that are nearly right: seeds with something changed, as strategies."""

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

# What has broken a parser somewhere.
TOKENS = (
    b"", b"\0", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\x1b[2J", b"\n", b"\r", b" ", b"../", b"..\\", b"/", b"\\",
    b'"', b"'", b"{", b"}", b"[", b"]", b",", b":", b"{}", b"[]", b"null", b"true", b"NaN", b"-Infinity", b"-0",
    b"1e999", b"1.0", b"9007199254740993", b"-1", b"1" * 5000, b"\\u0000", b"\\ud800", b"\\u0061", b"[" * 200,
    b'{"a":' * 200,    b"%", b"{{", b"}}", b"{%", b"#", b"=", b"a" * 300, b"sha256:", b"\xcc\x81",
    "\u202e\uff0e".encode(), b"\x80" * 12,
    b"0" * 64, b"PK\x03\x04", b"\x1f\x8b", b"(S'x'\ntR.", b"__class__",
)  # fmt: skip

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 0.5, -0.0, 2**53 - 1, 2**53, 10**400, 1e308, "", "a", "0", "a" * 64, "../x", "/x",
    "x" * 3000, "\0", "\x1b[2J", "\ud800", "\u202e", "e\u0301", [], {}, [[]], [{}], {"": 0}, [None], ["a", "a"],
    {"object": 1}, {"a": {"b": {"c": {}}}}, [1] * 300,
)  # fmt: skip


@st.composite
def _changed_bytes(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(data)))
        end = min(len(data), begin + draw(st.sampled_from((0, 1, 2, 8, 512))))
        kind = draw(st.integers(0, 4))
        if kind == 0 and begin < len(data):
            data[begin] ^= 1 << draw(st.integers(0, 7))
        elif kind == 1:
            data[begin:end] = draw(st.sampled_from(TOKENS))
        elif kind == 2:
            data[begin:end] = draw(st.binary(max_size=12))
        elif kind == 3:
            data[begin:begin] = data[begin:end] * draw(st.integers(1, 3))
        else:
            del data[begin : len(data) if draw(st.booleans()) else end]
    return bytes(data)


@st.composite
def _changed_document(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    holder = {"": json.loads(draw(st.sampled_from(seeds)))}
    for _ in range(draw(st.integers(1, 3))):
        place: Any = holder
        key: Any = ""
        while isinstance(place[key], dict | list) and place[key] and draw(st.integers(0, 3)):
            place = place[key]
            keys = sorted(place) if isinstance(place, dict) else range(len(place))
            key = draw(st.sampled_from(keys))
        kind = draw(st.integers(0, 3))
        value = deepcopy(draw(st.sampled_from(VALUES)))
        if kind == 0 and place is not holder:
            del place[key]
        elif kind == 1 and isinstance(place[key], dict):
            place[key][draw(st.sampled_from(("x", "", "type", "format", "object", "path")))] = value
        elif kind == 2 and isinstance(place[key], list):
            place[key].extend(deepcopy(place[key][:1]) * draw(st.integers(1, 3)))
        else:
            place[key] = value
    compact = draw(st.booleans())
    text = json.dumps(
        holder[""],
        sort_keys=compact,
        separators=(",", ":") if compact else None,
        ensure_ascii=not compact,
    )
    return text.encode("utf-8", "surrogatepass")


def mutations(seeds: Sequence[bytes], *, documents: bool) -> st.SearchStrategy[bytes]:
    """Return a strategy of bytes near `seeds`, which are JSON documents if `documents` is set."""
    changed = _changed_bytes(seeds) | st.binary(max_size=100)
    return _changed_document(seeds) | changed if documents else changed
