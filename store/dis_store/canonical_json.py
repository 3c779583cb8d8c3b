"""Writing JSON so that equal values are equal bytes (RFC 8785, JCS), and hashing what was written."""

from typing import Any

from dis_store.digest import Digest, Sha256
from dis_store.errors import InvalidInputError


def encode(value: Any) -> bytes:
    """Return the RFC 8785 encoding of a JSON value.

    Raises:
        InvalidInputError: The value has no canonical form: an integer beyond ±(2^53-1), NaN, Infinity, a lone
            surrogate, a key that is no string, or a type that JSON does not have.
    """
    # Our own documents are nearly always plain; rfc8785 costs 12 ms to import and is loaded on first use.
    import rfc8785

    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeError) as error:
        raise InvalidInputError("a value has no canonical JSON form", cause=str(error)) from error


def digest(value: Any) -> Digest:
    """Return the BLAKE3 digest of the canonical encoding of `value`."""
    return Digest.of(encode(value))


def sha256(value: Any) -> Sha256:
    """Return the SHA-256 digest of the canonical encoding of `value`."""
    return Sha256.of(encode(value))
