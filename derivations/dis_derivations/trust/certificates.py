"""Short-lived certificates for signers: their chain, their logging, and whom they name (Fulcio).

What is checked, in the words of RFC 5280 and RFC 6962: each certificate is signed by the next and was valid at a given
time, authorities may sign certificates, the signer's may only sign code, no critical extension is unknown, and a log of
the trusted root promised to show the certificate.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING

from dis_derivations.trust.errors import unbelieved
from dis_derivations.trust.public_key import PublicKey
from dis_derivations.trust.trusted_root import Authority, TrustedRoot
from dis_store.digest import Sha256

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from cryptography.x509.certificate_transparency import SignedCertificateTimestamp

_ISSUER = "1.3.6.1.4.1.57264.1.8"
_ISSUER_BEFORE = "1.3.6.1.4.1.57264.1.1"
_UTF8_STRING = 0x0C
_SHORT_LENGTH = 0x7F
_LONG_LENGTH = 0x81
# Key usage, basic constraints, extended key usage, alternative name.
_UNDERSTOOD = {"2.5.29.15", "2.5.29.19", "2.5.29.37", "2.5.29.17"}
_NAME_CONSTRAINTS = "2.5.29.30"


@dataclass(frozen=True)
class Signer:
    """Whom a certificate names, and its key."""

    key: PublicKey
    subject: str
    issuer: str


def check_certificate(chain: Sequence[bytes], root: TrustedRoot, time: datetime) -> Signer:
    """Return whom a signer's certificate names, after all of it was checked.

    Args:
        chain: DER; only the first, the signer's, is used: what issued it comes from the trusted root.
        root: Whom to believe.
        time: When it signed, as told by somebody who is believed.

    Raises:
        UntrustedError: Something does not hold, or is not checked here.
    """
    leaf = _load(chain[0])
    issuers = _issuers(leaf, root, time)
    _check_time(leaf, time, "the certificate of the signer")
    _check_leaf(leaf)
    _check_logged(leaf, issuers[0], root)
    key = PublicKey.from_loaded(leaf.public_key(), name="the key of the certificate")
    return Signer(key, _subject(leaf), _issuer(leaf))


def _issuers(leaf: "Certificate", root: TrustedRoot, time: datetime) -> "list[Certificate]":
    """Return the certificates of an authority that issued a certificate, checked up to the last."""
    for authority in root.authorities:
        if time in authority.period and (found := _chain(leaf, authority)) is not None:
            for depth, each in enumerate(found):
                _check_time(each, time, "a certificate of the authority")
                _check_authority(each, depth)
            return found
    raise unbelieved("no authority of the trusted root issued its certificate")


def _chain(leaf: "Certificate", authority: Authority) -> "list[Certificate] | None":
    """Return all certificates of an authority, each after what it issued; None if they do not lead from the leaf."""
    waiting = [_load(each) for each in authority.chain]
    found: list[Certificate] = []
    child = leaf
    # Trusted roots list them in either order.
    while (parent := next((each for each in waiting if _issued(each, child)), None)) is not None:
        waiting.remove(parent)
        found.append(parent)
        child = parent
    return None if waiting else found


def _issued(parent: "Certificate", child: "Certificate") -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        child.verify_directly_issued_by(parent)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _check_time(certificate: "Certificate", time: datetime, what: str) -> None:
    if not certificate.not_valid_before_utc <= time <= certificate.not_valid_after_utc:
        raise unbelieved(f"{what} was not valid when it signed, {time.isoformat()}")


def _check_authority(certificate: "Certificate", depth: int) -> None:
    from cryptography import x509

    _check_extensions(certificate)
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    except (x509.ExtensionNotFound, ValueError) as error:
        raise unbelieved(
            "a certificate of the authority does not say that it may issue others"
        ) from error
    if not constraints.ca or not usage.key_cert_sign:
        raise unbelieved("a certificate of the authority may not issue others")
    if constraints.path_length is not None and constraints.path_length < depth:
        raise unbelieved("the chain of the authority is longer than it may be")


def _check_leaf(leaf: "Certificate") -> None:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    _check_extensions(leaf)
    try:
        usage = leaf.extensions.get_extension_for_class(x509.KeyUsage).value
        extended = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (x509.ExtensionNotFound, ValueError) as error:
        raise unbelieved(
            "the certificate of the signer does not say that it may sign code"
        ) from error
    if not usage.digital_signature or ExtendedKeyUsageOID.CODE_SIGNING not in extended:
        raise unbelieved("the certificate of the signer may not sign code")
    try:
        constraints = leaf.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return
    if constraints.ca:
        raise unbelieved("the certificate of the signer is one of an authority")


def _check_extensions(certificate: "Certificate") -> None:
    from cryptography import x509

    try:
        extensions = list(certificate.extensions)
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise unbelieved("a certificate has extensions that cannot be read") from error
    for each in extensions:
        dotted = each.oid.dotted_string
        if dotted == _NAME_CONSTRAINTS or (each.critical and dotted not in _UNDERSTOOD):
            raise unbelieved(f"a certificate has the extension {dotted}, which is not checked here")


def _check_logged(leaf: "Certificate", issuer: "Certificate", root: TrustedRoot) -> None:
    """Check that a log of certificates promised to show the certificate (RFC 6962, section 3.2)."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    try:
        promises = leaf.extensions.get_extension_for_class(
            x509.PrecertificateSignedCertificateTimestamps
        ).value
    except (x509.ExtensionNotFound, ValueError) as error:
        raise unbelieved("no log of certificates promised to show its certificate") from error
    issuer_key = issuer.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    logged = leaf.tbs_precertificate_bytes
    for promise in promises:
        log = root.certificate_logs.get(Sha256(f"sha256:{promise.log_id.hex()}"))
        if (
            log is None
            or promise.timestamp.replace(tzinfo=log.period.start.tzinfo) not in log.period
        ):
            continue
        if log.key.made(promise.signature, _promised(promise, issuer_key, logged)):
            return
    raise unbelieved("no log of the trusted root promised to show its certificate")


def _promised(promise: "SignedCertificateTimestamp", issuer_key: bytes, logged: bytes) -> bytes:
    """Return what the log signed: version 1, a certificate timestamp, of a precertificate."""
    from datetime import UTC

    milliseconds = round(promise.timestamp.replace(tzinfo=UTC).timestamp() * 1000)
    extensions = promise.extension_bytes
    return b"".join(
        (
            struct.pack(">BBQH", 0, 0, milliseconds, 1),
            sha256(issuer_key).digest(),
            len(logged).to_bytes(3, "big"),
            logged,
            len(extensions).to_bytes(2, "big"),
            extensions,
        )
    )


def _subject(leaf: "Certificate") -> str:
    from cryptography import x509

    try:
        names = list(leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except (x509.ExtensionNotFound, ValueError):
        names = []
    known = [
        name.value
        for name in names
        if isinstance(name, x509.UniformResourceIdentifier | x509.RFC822Name)
    ]
    if len(names) != 1 or len(known) != 1:
        raise unbelieved(
            "the certificate of the signer does not name exactly one URI or mail address"
        )
    return known[0]


def _issuer(leaf: "Certificate") -> str:
    from cryptography import x509

    found = {
        each.oid.dotted_string: each.value.value
        for each in leaf.extensions
        if isinstance(each.value, x509.UnrecognizedExtension)
    }
    try:
        if _ISSUER in found:
            return _utf8_string(found[_ISSUER])
        if _ISSUER_BEFORE in found:
            return found[_ISSUER_BEFORE].decode("utf-8")
    except UnicodeDecodeError:
        pass
    raise unbelieved("the certificate of the signer does not say who vouched for them")


def _utf8_string(der: bytes) -> str:
    """Return the text of a DER UTF8String of less than 256 bytes."""
    if len(der) >= 2 and der[0] == _UTF8_STRING:  # noqa: PLR2004 - a tag and a length
        start = 3 if der[1] == _LONG_LENGTH else 2
        length = der[start - 1]
        if (start == 3) == (length > _SHORT_LENGTH) and len(der) == start + length:  # noqa: PLR2004
            return der[start:].decode("utf-8")
    raise unbelieved("the certificate of the signer does not say who vouched for them")


def _load(der: bytes) -> "Certificate":
    from cryptography.x509 import load_der_x509_certificate

    try:
        return load_der_x509_certificate(der)
    except (ValueError, TypeError) as error:
        raise unbelieved("a certificate cannot be read") from error
