"""Digests as validated names: BLAKE3 for everything of ours, SHA-256 where others speak it."""

import re
from typing import Self

from dis_store.errors import InvalidInputError

_HEX64 = re.compile(r"[0-9a-f]{64}")
_SHA256 = re.compile(r"sha256:[0-9a-f]{64}")


class Digest(str):
    """A BLAKE3-256 digest: 64 lowercase hexadecimal digits, `Digest(str(d)) == d`.

    Raises:
        InvalidInputError: The text is anything else.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Check the text."""
        # A damaged index may hold anything in the place of a text.
        if not _HEX64.fullmatch(str(text)):
            raise InvalidInputError(
                f"{str(text)[:80]!r} is not a digest",
                cause="a digest is 64 lowercase hexadecimal digits",
            )
        return super().__new__(cls, text)

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Return the BLAKE3-256 digest of `data`."""
        from blake3 import blake3

        return cls(blake3(data).hexdigest())


class Sha256(str):
    """A SHA-256 digest in its tagged form, `sha256:` and 64 lowercase hexadecimal digits.

    Raises:
        InvalidInputError: The text is anything else.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Check the text."""
        if not _SHA256.fullmatch(text):
            raise InvalidInputError(
                f"{text[:80]!r} is not a SHA-256 digest",
                cause="it must be 'sha256:' and 64 lowercase hexadecimal digits",
            )
        return super().__new__(cls, text)

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Return the SHA-256 digest of `data`."""
        from hashlib import sha256

        return cls(f"sha256:{sha256(data).hexdigest()}")

    @property
    def hex(self) -> str:
        """The 64 digits without the tag."""
        return self[len("sha256:") :]
