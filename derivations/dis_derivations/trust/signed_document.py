"""A signed document as files and registries hold it: a Sigstore bundle, or a DSSE envelope alone."""

import base64
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dis_derivations.trust import statement
from dis_derivations.trust.envelope import Envelope, Signature
from dis_derivations.trust.public_key import PublicKey
from dis_derivations.trust.strict_base64 import decode_base64
from dis_store import canonical_json, strict_json
from dis_store.errors import InvalidInputError

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
OTHER_MEDIA_TYPES = tuple(
    f"application/vnd.dev.sigstore.bundle+json;version=0.{minor}" for minor in (1, 2, 3)
)
MAX_DOCUMENT_BYTES = 8 << 20
_MAX_CERTIFICATE_BYTES = 1 << 15
_MAX_CERTIFICATES = 10
_SHA256_BYTES = 32
_BUNDLE_FIELDS = {"mediaType", "verificationMaterial", "dsseEnvelope", "messageSignature"}
_MATERIAL_FIELDS = {
    "publicKey", "certificate", "x509CertificateChain", "tlogEntries", "timestampVerificationData",
}  # fmt: skip


@dataclass(frozen=True)
class SignedDocument:
    """A signed document.

    Attributes:
        envelope: What was signed, with its signatures.
        hint: The name of the key in a bundle that has one; unsigned.
        certificates: DER, the signer's first, in a bundle that has some; unchecked.
        log_entries: Entries of a transparency log, as the bundle has them; unchecked.
        timestamps: Whether a bundle has signed timestamps.
    """

    envelope: Envelope
    hint: str = ""
    certificates: tuple[bytes, ...] = ()
    log_entries: tuple[Any, ...] = ()
    timestamps: bool = False

    @classmethod
    def decode(cls, data: bytes, *, name: str = "the signed document") -> "SignedDocument":
        """Parse a Sigstore bundle (v0.1 to v0.3) or a DSSE envelope. Nothing is verified by that.

        Raises:
            InvalidInputError: It is neither.
        """
        if len(data) > MAX_DOCUMENT_BYTES:
            raise InvalidInputError(
                f"{name} is refused", cause=f"it has more than {MAX_DOCUMENT_BYTES} bytes"
            )
        document = strict_json.decode(data, name=name)
        if isinstance(document, dict) and "mediaType" in document:
            return _bundle(document, name)
        return cls(Envelope.from_json(document, name=name))

    @cached_property
    def hints(self) -> frozenset[str]:
        """The names that the document gives to the keys that signed it; unsigned."""
        named = {signature.key_id for signature in self.envelope.signatures} | {self.hint}
        return frozenset(named - {""})

    def is_signed_by(self, key: PublicKey) -> bool:
        """Tell whether a key made one of the signatures. Hints are not looked at."""
        signed = self.envelope.signed_bytes
        return any(key.made(each.sig, signed) for each in self.envelope.signatures)


def check_statement(data: bytes) -> None:
    """Look whether bytes are a signed document around an in-toto statement. Nothing is verified by that.

    Raises:
        InvalidInputError: They are none.
    """
    payload = SignedDocument.decode(data).envelope.statement_payload()
    statement.decode(payload, name="the signed statement", old=True)


def encode_bundle(envelope: Envelope, hint: str) -> bytes:
    """Return a Sigstore bundle of version 0.3 with the hint of a public key, as canonical JSON.

    The hint and the key id of the one signature are the same, as its specification asks.
    """
    return canonical_json.encode(
        {
            "mediaType": MEDIA_TYPE,
            "verificationMaterial": {"publicKey": {"hint": hint}},
            "dsseEnvelope": envelope.to_json(),
        }
    )


def _bundle(document: dict[str, Any], name: str) -> SignedDocument:
    media_type = document["mediaType"]
    if media_type != MEDIA_TYPE and media_type not in OTHER_MEDIA_TYPES:
        raise InvalidInputError(
            f"{name} is of a kind that is not known", cause=f"its mediaType is {media_type!r}"
        )
    if not set(document) <= _BUNDLE_FIELDS:
        unknown = ", ".join(sorted(set(document) - _BUNDLE_FIELDS))
        raise InvalidInputError(f"{name} is malformed", cause=f"a bundle has no {unknown}")
    if "dsseEnvelope" not in document or "messageSignature" in document:
        raise InvalidInputError(
            f"{name} holds no statement",
            cause="it is a bundle without a DSSE envelope, such as a plain signature of a file",
        )
    envelope = Envelope.from_json(document["dsseEnvelope"], name=name)
    if len(envelope.signatures) != 1:
        raise InvalidInputError(f"{name} is malformed", cause="a bundle has exactly one signature")
    material = document.get("verificationMaterial")
    if not isinstance(material, dict) or not set(material) <= _MATERIAL_FIELDS:
        raise InvalidInputError(f"{name} is malformed", cause="its verificationMaterial is none")
    return SignedDocument(
        envelope,
        hint=_hint(material, envelope.signatures[0], name),
        certificates=_certificates(material, name),
        log_entries=_list(material, "tlogEntries", name),
        timestamps=bool(material.get("timestampVerificationData")),
    )


def _hint(material: dict[str, Any], signature: Signature, name: str) -> str:
    if "publicKey" not in material:
        return ""
    public = material["publicKey"]
    hint = public.get("hint", "") if isinstance(public, dict) and set(public) <= {"hint"} else None
    if not isinstance(hint, str):
        raise InvalidInputError(f"{name} is malformed", cause="its publicKey has at most a hint")
    if signature.key_id and hint != signature.key_id:
        raise InvalidInputError(
            f"{name} is malformed", cause="the bundle and its envelope name different keys"
        )
    return hint


def _certificates(material: dict[str, Any], name: str) -> tuple[bytes, ...]:
    given = [
        field for field in ("publicKey", "certificate", "x509CertificateChain") if field in material
    ]
    if len(given) != 1:
        raise InvalidInputError(
            f"{name} is malformed", cause="it must have one of a public key, a certificate, a chain"
        )
    if given == ["publicKey"]:
        return ()
    if given == ["certificate"]:
        listed: tuple[Any, ...] = (material["certificate"],)
    else:
        chain = material["x509CertificateChain"]
        listed = _list(chain, "certificates", name) if isinstance(chain, dict) else ()
    if not 1 <= len(listed) <= _MAX_CERTIFICATES:
        raise InvalidInputError(f"{name} is malformed", cause="it has no certificate, or too many")
    return tuple(_certificate(each, name) for each in listed)


def _certificate(value: Any, name: str) -> bytes:
    if not isinstance(value, dict) or set(value) != {"rawBytes"}:
        raise InvalidInputError(f"{name} is malformed", cause="a certificate has `rawBytes`")
    return decode_base64(value["rawBytes"], name=name, limit=_MAX_CERTIFICATE_BYTES)


def _list(owner: dict[str, Any], field: str, name: str) -> tuple[Any, ...]:
    value = owner.get(field, [])
    if not isinstance(value, list):
        raise InvalidInputError(f"{name} is malformed", cause=f"`{field}` is no list")
    return tuple(value)


def hint_text(hint: str) -> str:
    """Return a hint as people see keys, `sha256:…`, where it is one of ours; else as it is."""
    try:
        raw = base64.b64decode(hint, validate=True)
    except ValueError:
        return repr(hint)
    return f"sha256:{raw.hex()}" if len(raw) == _SHA256_BYTES else repr(hint)
