"""What the signed documents about a run are worth: who signed each, whether that is true, and whether he is trusted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from dis_derivations.trust import statement
from dis_derivations.trust.claim import PREDICATE_TYPE, Claim
from dis_derivations.trust.policy import (
    TrustedKey,
    TrustPolicy,
    claim_objection,
    standing_objection,
)
from dis_derivations.trust.provenance import subject_of
from dis_derivations.trust.public_key import PublicKey
from dis_derivations.trust.signed_document import SignedDocument, hint_text
from dis_store.digest import Digest
from dis_store.errors import DisError

Standing = Literal["trusted", "not trusted", "revoked", "unknown key", "other", "invalid"]
STANDINGS: tuple[Standing, ...] = get_args(Standing)
About = Literal["claim", "provenance", "other"]
ABOUT: tuple[About, ...] = get_args(About)


@dataclass(frozen=True)
class Signatories:
    """By whom signatures are judged.

    Attributes:
        policy: What the settings revoke.
        trusted: The keys that they trust.
        known: Other keys that are at hand, by name; being there makes none trusted.
        now: The time, with its zone.
    """

    policy: TrustPolicy
    trusted: Sequence[TrustedKey]
    known: Mapping[str, PublicKey]
    now: datetime


@dataclass(frozen=True)
class Signature:
    """A signed document.

    Attributes:
        document: Its digest, by which the store has it.
        about: What it states: the outputs of a build, how a build came to be, or anything else.
        standing: `trusted`: a trusted key made it. `not trusted`: a key that is known and not trusted did. `revoked`: a
            revoked one. `unknown key`: it names a key that is not here, so it was not verified. `other`: a trusted key
            signed other results, or it is about another build. `invalid`: it does not verify, or is malformed.
        key: The name of the key where one is known, else what the document calls it.
        account: The same in a sentence.
    """

    document: Digest
    about: About
    standing: Standing
    key: str
    account: str

    def to_json(self) -> dict[str, Any]:
        """Return the signature as a JSON object."""
        return {
            "document": str(self.document),
            "about": self.about,
            "standing": self.standing,
            "key": self.key,
            "account": self.account,
        }


def judge(
    documents: Mapping[Digest, bytes],
    key: Digest,
    results: Digest,
    signatories: Signatories,
) -> tuple[Signature, ...]:
    """Return what each document is worth, the trusted ones first. Pure; raises nothing for whatever they hold.

    Args:
        documents: By their digests.
        key: What the build is remembered by that they should be about.
        results: What it gave.
        signatories: Whom to believe.
    """
    found = [_judged(digest, data, key, results, signatories) for digest, data in documents.items()]
    return tuple(
        sorted(found, key=lambda each: (STANDINGS.index(each.standing), each.key, each.document))
    )


def _judged(
    digest: Digest, data: bytes, key: Digest, results: Digest, signatories: Signatories
) -> Signature:
    about: About = "other"
    try:
        document = SignedDocument.decode(data)
        stated = statement.decode(
            document.envelope.statement_payload(), name="the statement", old=True
        )
        about = _about(stated, subject_of(stated)[1])
        claim = Claim.decode(document.envelope.statement_payload()) if about == "claim" else None
        objection = _other(claim, subject_of(stated)[1], key, results)
    except DisError as error:
        return Signature(digest, about, "invalid", "", f"does not verify: {error}")
    standing, name, account = _signed(document, claim, signatories)
    if objection is not None and standing == "trusted":
        return Signature(digest, about, "other", name, f"{account}, and {objection}")
    return Signature(digest, about, standing, name, account)


def _about(stated: statement.Statement, provenance_key: Digest | None) -> About:
    if stated.predicate_type == PREDICATE_TYPE:
        return "claim"
    return "other" if provenance_key is None else "provenance"


def _other(
    claim: Claim | None, provenance_key: Digest | None, key: Digest, results: Digest
) -> str | None:
    """Return what a document says that is not about this run; None where it is."""
    if claim is not None:
        if claim.key != key:
            return f"it is about another build, {claim.key[:12]}"
        stated = claim.outputs.get("results")
        if stated is None or stated.object != results:
            return "it says that the build gave OTHER RESULTS"
    if provenance_key is not None and provenance_key != key:
        return f"it is about another build, {str(provenance_key)[:12]}"
    return None


def _signed(
    document: SignedDocument, claim: Claim | None, signatories: Signatories
) -> tuple[Standing, str, str]:
    policy, now = signatories.policy, signatories.now
    objections: list[tuple[Standing, str, str]] = []
    for each in signatories.trusted:
        if not document.is_signed_by(each.key):
            continue
        objection = (
            standing_objection(each, "builds", policy, now)
            if claim is None
            else claim_objection(each, claim, policy, now)
        )
        if objection is None:
            return "trusted", each.name, f"verified: signed by the trusted key {each.name}"
        revoked = each.key.fingerprint in policy.revoked
        standing: Standing = "revoked" if revoked else "not trusted"
        objections.append((standing, each.name, f"signed by the key {each.name}, but {objection}"))
    if objections:
        return objections[0]
    for name, public in signatories.known.items():
        if document.is_signed_by(public):
            if public.fingerprint in policy.revoked:
                return "revoked", name, f"signed by the key {name}, but it is revoked"
            return "not trusted", name, f"signed by the key {name}, which is not trusted"
    return _stranger(document, signatories)


def _stranger(document: SignedDocument, signatories: Signatories) -> tuple[Standing, str, str]:
    """Say what is known of a signature that no key here made."""
    names = {each.key.hint: each.name for each in signatories.trusted}
    names = {public.hint: name for name, public in signatories.known.items()} | names
    for hint in sorted(document.hints):
        if hint in names:
            return "invalid", names[hint], f"does not verify: it names the key {names[hint]}"
    named = ", ".join(map(hint_text, sorted(document.hints)))
    if any(hint_text(hint) in map(str, signatories.policy.revoked) for hint in document.hints):
        return "revoked", named, f"names the key {named}, which is revoked"
    if document.certificates:
        return "unknown key", named, "signed by who has a certificate, which was not verified"
    said = f"the key {named}, which is not known here" if named else "no key"
    return "unknown key", named, f"NOT VERIFIED: it names {said}"
