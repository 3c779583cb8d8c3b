"""Attestations that others made of an image: whose they are, what they are about, and what of that was checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dis_derivations.trust import statement
from dis_derivations.trust.attestation_policy import AttestationPolicy, Identity
from dis_derivations.trust.certificates import check_certificate
from dis_derivations.trust.errors import UntrustedError, unbelieved
from dis_derivations.trust.policy import MAX_ENVELOPES, Decision, standing_objection
from dis_derivations.trust.signed_document import SignedDocument
from dis_derivations.trust.statement import Statement
from dis_derivations.trust.transparency import time_of_signature
from dis_derivations.trust.trusted_root import TrustedRoot
from dis_store.digest import Sha256
from dis_store.errors import DisError

_BY_KEY = ("signature by a key of the settings", "subject")
_BY_CERTIFICATE = (
    "signature",
    "chain of certificates to the trusted root",
    "promise of a log of certificates",
    "promise of the transparency log, with its time",
    "proof of inclusion under a signed head of the tree",
    "identity and issuer",
    "subject",
)


@dataclass(frozen=True)
class Verified:
    """An attestation that is believed.

    Attributes:
        signer: What the settings call the key or the identity.
        how: By a key that the settings have, or by a certificate of an authority that they have.
        predicate_type: What kind of statement it is.
        predicate: What it says.
        checked: What was checked, in words. What is not here was not.
    """

    signer: str
    how: Literal["key", "certificate"]
    predicate_type: str
    predicate: Mapping[str, Any]
    checked: tuple[str, ...]


def verify_attestation(data: bytes, subject: Sha256, policy: AttestationPolicy) -> Verified:
    """Verify one attestation of an image, offline.

    Args:
        data: A Sigstore bundle or a DSSE envelope, as JSON.
        subject: The SHA-256 of what it must be about: the manifest of the image.
        policy: Whose attestations are believed. Its mode is not looked at: see `judge_image`.

    Raises:
        UntrustedError: It is not believed; the cause says why. Whatever is not checked here is not believed.
        InvalidInputError: It is malformed.
    """
    document = SignedDocument.decode(data, name="the attestation")
    stated = statement.decode(
        document.envelope.statement_payload(), name="the attestation", old=True
    )
    if all(each.digest.get("sha256") != subject.hex for each in stated.subjects):
        raise unbelieved(f"it is not about {subject}")
    if policy.predicate_types and stated.predicate_type not in policy.predicate_types:
        raise unbelieved(f"it is a statement of the type {stated.predicate_type!r}")
    if document.certificates:
        return _by_certificate(document, stated, policy)
    return _by_key(document, stated, policy)


def judge_image(documents: Sequence[bytes], subject: Sha256, policy: AttestationPolicy) -> Decision:
    """Decide whether an image may be used, by the attestations that came with it. Raises nothing for what they hold.

    Args:
        documents: Attestations, from anybody.
        subject: The SHA-256 of the manifest of the image.
        policy: What is asked.
    """
    if policy.mode == "off":
        return Decision(True, False, (), ("attestations are not looked at: image-trust is off",))
    signers: list[str] = []
    reasons: list[str] = []
    for data in documents[:MAX_ENVELOPES]:
        try:
            signers.append(verify_attestation(data, subject, policy).signer)
        except DisError as error:
            reasons.append(str(error))
    if not signers and not documents:
        reasons.append("there is no attestation of it")
    if not policy.keys and not policy.identities:
        reasons.append("no key and no identity is trusted for images")
    vouched = bool(signers)
    return Decision(
        accepted=vouched or policy.mode == "warn",
        vouched=vouched,
        signers=tuple(dict.fromkeys(signers)),
        reasons=tuple(dict.fromkeys(reasons)),
    )


def _by_key(document: SignedDocument, stated: Statement, policy: AttestationPolicy) -> Verified:
    objections: list[str] = []
    for key in policy.keys:
        if document.is_signed_by(key.key):
            objection = standing_objection(key, "images", policy.builds, policy.now)
            if objection is None:
                return Verified(key.name, "key", stated.predicate_type, stated.predicate, _BY_KEY)
            objections.append(f"the key {key.name} does not count: {objection}")
    raise unbelieved("; ".join(objections) or "it is signed by no key that is trusted for images")


def _by_certificate(
    document: SignedDocument, stated: Statement, policy: AttestationPolicy
) -> Verified:
    if not policy.identities:
        raise unbelieved("it is signed with a certificate, and no identity is trusted")
    causes: list[str] = []
    for identity in policy.identities:
        try:
            _check_identity(document, identity, policy)
        except UntrustedError as error:
            causes.append(f"{identity.name}: {error.cause}")
        else:
            return Verified(
                identity.name,
                "certificate",
                stated.predicate_type,
                stated.predicate,
                _BY_CERTIFICATE,
            )
    raise unbelieved("; ".join(dict.fromkeys(causes)))


def _check_identity(
    document: SignedDocument, identity: Identity, policy: AttestationPolicy
) -> None:
    root = TrustedRoot.decode(policy.roots[identity.root])
    time = time_of_signature(document, root)
    signer = check_certificate(document.certificates, root, time)
    if not document.is_signed_by(signer.key):
        raise unbelieved("the key of its certificate did not sign it")
    if signer.key.fingerprint in policy.builds.revoked:
        raise unbelieved("the key of its certificate is revoked")
    if signer.issuer != identity.issuer:
        raise unbelieved(f"{signer.issuer!r} vouched for the signer, not {identity.issuer!r}")
    if not _fits(signer.subject, identity.subject):
        raise unbelieved(f"the signer is {signer.subject!r}, not {identity.subject!r}")


def _fits(subject: str, wanted: str) -> bool:
    return subject.startswith(wanted[:-1]) if wanted.endswith("*") else subject == wanted
