"""DSSE envelopes (protocol v1): a payload, its type, and signatures over both.

https://github.com/secure-systems-lab/dsse: what is signed is `pre_authentication_encoding`, so that neither the type
can be changed nor anything be moved between the two.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.trust import statement
from dis_derivations.trust.strict_base64 import decode_base64
from dis_store import canonical_json
from dis_store.errors import InvalidInputError

MAX_SIGNATURES = 8
_FIELDS = {"payload", "payloadType", "signatures"}
_SIGNATURE_FIELDS = {"keyid", "sig"}
_MAX_SIGNATURE_BYTES = 1024


@dataclass(frozen=True)
class Signature:
    """A signature. `key_id` is unsigned: a hint for people and for the order of looking, never a reason to believe."""

    sig: bytes
    key_id: str = ""


@dataclass(frozen=True)
class Envelope:
    """A payload that somebody signed, or says to have signed."""

    payload_type: str
    payload: bytes
    signatures: tuple[Signature, ...]

    @property
    def signed_bytes(self) -> bytes:
        """What each signature is over."""
        return pre_authentication_encoding(self.payload_type, self.payload)

    def statement_payload(self) -> bytes:
        """Return the payload of an envelope with an in-toto statement.

        Raises:
            InvalidInputError: The envelope has a payload of another type.
        """
        if self.payload_type != statement.PAYLOAD_TYPE:
            raise InvalidInputError(
                "the signed document holds no in-toto statement",
                cause=f"its payloadType is {self.payload_type!r}, not {statement.PAYLOAD_TYPE!r}",
            )
        return self.payload

    def to_json(self) -> dict[str, Any]:
        """Return the envelope as JSON."""
        return {
            "payload": base64.b64encode(self.payload).decode(),
            "payloadType": self.payload_type,
            "signatures": [_signature_json(each) for each in self.signatures],
        }

    def encode(self) -> bytes:
        """Return the envelope as canonical JSON."""
        return canonical_json.encode(self.to_json())

    @classmethod
    def from_json(cls, document: Any, *, name: str) -> "Envelope":
        """Take an envelope out of parsed JSON.

        Raises:
            InvalidInputError: It is none, or has no signature, or more than `MAX_SIGNATURES`.
        """
        if not isinstance(document, dict) or set(document) != _FIELDS:
            raise InvalidInputError(
                f"{name} is no DSSE envelope",
                cause=f"it must have exactly {', '.join(sorted(_FIELDS))}",
            )
        signatures, payload_type = document["signatures"], document["payloadType"]
        if not isinstance(signatures, list) or not signatures:
            raise InvalidInputError(f"{name} is not signed", cause="it has no signature")
        if len(signatures) > MAX_SIGNATURES:
            raise InvalidInputError(
                f"{name} is refused", cause=f"it has more than {MAX_SIGNATURES} signatures"
            )
        if not isinstance(payload_type, str) or not payload_type:
            raise InvalidInputError(f"{name} is malformed", cause="it has no payloadType")
        payload = decode_base64(document["payload"], name=name, limit=statement.MAX_PAYLOAD_BYTES)
        return cls(payload_type, payload, tuple(_signature(each, name) for each in signatures))


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """Return PAE(type, payload): "DSSEv1", then each part after its length in bytes, apart by one space."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _signature(value: Any, name: str) -> Signature:
    known = isinstance(value, Mapping) and "sig" in value and set(value) <= _SIGNATURE_FIELDS
    key_id = value.get("keyid", "") if known else None
    if not isinstance(key_id, str):
        raise InvalidInputError(
            f"{name} is malformed", cause="a signature has a `sig`, and may have a `keyid`"
        )
    return Signature(decode_base64(value["sig"], name=name, limit=_MAX_SIGNATURE_BYTES), key_id)


def _signature_json(signature: Signature) -> dict[str, str]:
    sig = {"sig": base64.b64encode(signature.sig).decode()}
    return sig | ({"keyid": signature.key_id} if signature.key_id else {})
