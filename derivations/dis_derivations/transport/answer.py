"""What the headers of an answer say of a file: how long it is, which version, and which bytes come."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-([0-9]{1,18})|\*)/([0-9]{1,18}|\*)")
_NUMBER = re.compile(r"[0-9]{1,18}")
_STRONG = re.compile(r'"[\x21\x23-\x7e]{0,512}"')
_LONGEST_DATE = 64


@dataclass(frozen=True)
class Version:
    """What tells one version of a file from another.

    Attributes:
        size: Bytes; None where the server does not say.
        etag: A strong entity tag; None where there is none.
        modified: The time of the last change as the server writes it; None where it is not told.
    """

    size: int | None = None
    etag: str | None = None
    modified: str | None = None

    @property
    def condition(self) -> str | None:
        """What `If-Range` asks for; None where no part may be asked for later."""
        return self.etag or self.modified

    def is_same(self, other: "Version") -> bool:
        """Tell whether bytes of both may stand in one file, as far as they have marks to tell by."""
        if self.size != other.size or self.etag != other.etag:
            return False
        return self.etag is not None or self.modified == other.modified


def version_of(headers: Mapping[str, str], size: int | None) -> Version:
    """Return the version that an answer is of."""
    etag, modified = headers.get("ETag"), headers.get("Last-Modified")
    return Version(
        size,
        etag if etag is not None and _STRONG.fullmatch(etag) else None,
        modified if modified and len(modified) <= _LONGEST_DATE and modified.isascii() else None,
    )


def length_of(headers: Mapping[str, str]) -> int | None:
    """Return the length of the body; None where it is not told, or chunks tell it."""
    text = headers.get("Content-Length", "").strip()
    if headers.get("Transfer-Encoding") or not _NUMBER.fullmatch(text):
        return None
    return int(text)


def is_encoded(headers: Mapping[str, str]) -> bool:
    """Tell whether the body is not the file itself but made from it, as by compression."""
    return headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity")


def range_of(headers: Mapping[str, str]) -> tuple[int, int, int | None] | None:
    """Return first byte, end and size of the file from `Content-Range`; None where it is malformed.

    Of an answer that no part was found for, the first two are 0.
    """
    match = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", "").strip())
    if match is None:
        return None
    size = None if match[3] == "*" else int(match[3])
    if match[1] is None:
        return 0, 0, size
    first, end = int(match[1]), int(match[2]) + 1
    if end <= first or (size is not None and end > size):
        return None
    return first, end, size
