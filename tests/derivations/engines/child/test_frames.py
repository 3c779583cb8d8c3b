"""Frames: what is written is read, and nothing else is."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.engines.child import frames
from dis_derivations.engines.child.frames import FrameError, encode_prefix, read_frame

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
)
JSON = st.recursive(
    SCALARS | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=3
        )
    ),
    max_leaves=8,
)
HEADERS = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8), JSON, max_size=4
)


def read(data: bytes) -> tuple[dict[str, Any], bytes]:
    stream = io.BytesIO(data)

    def read_exactly(count: int) -> bytes:
        piece = stream.read(count)
        if len(piece) < count:
            raise EOFError
        return piece

    return read_frame(read_exactly)


@given(HEADERS, st.binary(max_size=100))
def test_what_is_written_is_read(header: dict[str, Any], payload: bytes) -> None:
    assert read(encode_prefix(header, len(payload)) + payload) == (header, payload)


@given(HEADERS, st.binary(max_size=20), st.data())
def test_a_frame_that_is_cut_off_is_no_frame(
    header: dict[str, Any], payload: bytes, data: st.DataObject
) -> None:
    whole = encode_prefix(header, len(payload)) + payload
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(EOFError):
        read(whole[:cut])


@given(HEADERS.filter(bool))
def test_a_header_has_one_form(header: dict[str, Any]) -> None:
    loose = json.dumps(header, separators=(", ", ": ")).encode()
    canonical = json.dumps(
        header, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    ).encode()
    assert loose != canonical
    with pytest.raises(FrameError, match="canonical"):
        read(frames._PREFIX.pack(frames.MAGIC, len(loose), 0) + loose)


@pytest.mark.parametrize(
    "data",
    [b"[]", b"1", b"", b"{", b'{"a":NaN}', b'{"a":1e999}', b'{"a":1,"a":1}', b"\xff", b'{"\\ud800":1}', b"[" * 100_000],
)  # fmt: skip
def test_a_header_that_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        read(frames._PREFIX.pack(frames.MAGIC, len(data), 0) + data)


def test_nothing_is_read_of_what_is_announced_too_large() -> None:
    asked: list[int] = []

    def read_exactly(count: int) -> bytes:
        asked.append(count)
        return frames._PREFIX.pack(frames.MAGIC, 2, frames.MOST_PAYLOAD_BYTES + 1)

    with pytest.raises(FrameError, match="payload"):
        read_frame(read_exactly)
    assert asked == [frames._PREFIX.size]


def test_a_writer_keeps_the_limits_of_a_reader() -> None:
    with pytest.raises(FrameError, match="too large"):
        encode_prefix({}, frames.MOST_PAYLOAD_BYTES + 1)
    with pytest.raises(FrameError, match="too large"):
        encode_prefix({"a": "x" * frames.MOST_HEADER_BYTES}, 0)
