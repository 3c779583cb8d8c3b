"""Base64 in the one form that bytes have: the standard alphabet, padded, without line ends or bits that say nothing."""

import base64
import binascii
import re
from typing import Any

from dis_store.errors import InvalidInputError

_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


def decode_base64(value: Any, *, name: str, limit: int) -> bytes:
    """Return the bytes of standard base64 with its padding, in the one form that they have.

    Raises:
        InvalidInputError: It is something else, or longer than `limit` bytes.
    """
    if not isinstance(value, str) or len(value) % 4 or not _BASE64.fullmatch(value):
        raise InvalidInputError(f"{name} is malformed", cause="what should be base64 is not")
    if len(value) > 4 * (limit // 3 + 1):
        raise InvalidInputError(f"{name} is refused", cause=f"it has more than {limit} bytes")
    try:
        decoded = base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise InvalidInputError(
            f"{name} is malformed", cause="what should be base64 is not"
        ) from error
    if base64.b64encode(decoded).decode() != value:
        raise InvalidInputError(
            f"{name} is malformed", cause="its base64 has bits that say nothing"
        )
    return decoded
