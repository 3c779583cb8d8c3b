"""Frames: how dis and a worker write messages into a pipe. Imports nothing but the standard library.

A worker runs where dis is not installed, so this file is laid beside it and imported from there.

    magic `DISF` | header length, 4 bytes | payload length, 8 bytes | header | payload

Numbers are little-endian. The header is one JSON object in canonical form (keys sorted, no spaces, UTF-8); the payload
is raw bytes, whose meaning the header says. Whoever reads refuses anything else, and more than the limits.
"""

import json
import struct
from collections.abc import Callable
from typing import Any

PROTOCOL = 2
"""The version of the messages; both sides say it first, and refuse another."""

MAGIC = b"DISF"
MOST_HEADER_BYTES = 16 << 20
MOST_PAYLOAD_BYTES = 256 << 20
_PREFIX = struct.Struct("<4sIQ")


class FrameError(Exception):
    """What came through the pipe is no frame."""


def encode_prefix(header: dict[str, Any], payload_bytes: int) -> bytes:
    """Return everything of a frame that comes before its payload.

    Raises:
        FrameError: It would be larger than a reader takes.
    """
    data = _canonical(header)
    if len(data) > MOST_HEADER_BYTES or payload_bytes > MOST_PAYLOAD_BYTES:
        raise FrameError(f"a frame of {len(data)} and {payload_bytes} bytes is too large")
    return _PREFIX.pack(MAGIC, len(data), payload_bytes) + data


def read_frame(read_exactly: Callable[[int], bytes]) -> tuple[dict[str, Any], bytes]:
    """Read one frame.

    Args:
        read_exactly: Returns as many bytes as it is asked for, or raises.

    Raises:
        FrameError: What came is no frame, or a larger one than is allowed.
    """
    magic, header_bytes, payload_bytes = _PREFIX.unpack(read_exactly(_PREFIX.size))
    if magic != MAGIC:
        raise FrameError(f"a frame begins with {MAGIC!r}, and {magic!r} came")
    if header_bytes > MOST_HEADER_BYTES:
        raise FrameError(f"a header of {header_bytes} bytes; at most {MOST_HEADER_BYTES} are taken")
    if payload_bytes > MOST_PAYLOAD_BYTES:
        raise FrameError(
            f"a payload of {payload_bytes} bytes; at most {MOST_PAYLOAD_BYTES} are taken"
        )
    header = _decoded(read_exactly(header_bytes))
    return header, read_exactly(payload_bytes) if payload_bytes else b""


def _canonical(header: dict[str, Any]) -> bytes:
    text = json.dumps(
        header, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode("utf-8")


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        header = json.loads(data.decode("utf-8"))
        # Written again it must be the same: so no key came twice, and nothing was left out or put otherwise.
        canonical = _canonical(header) if isinstance(header, dict) else None
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a header that is no JSON: {error}") from error
    if canonical != data:
        raise FrameError("a header that is no JSON object in canonical form")
    return dict(header)
