"""Whether a claim about a build is believed: which keys may speak, how many must agree, and what counts against it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from dis_derivations.trust import statement
from dis_derivations.trust.claim import PREDICATE_TYPE, Claim, same_result
from dis_derivations.trust.public_key import PublicKey
from dis_derivations.trust.signed_document import SignedDocument, hint_text
from dis_store.digest import Sha256
from dis_store.errors import DisError

Mode = Literal["require", "warn", "off"]
Role = Literal["builds", "images"]
MODES: tuple[Mode, ...] = ("require", "warn", "off")
ROLES: tuple[Role, ...] = ("builds", "images")
MAX_ENVELOPES = 64
"""How many signed documents are read for one claim; a registry may offer any number."""


@dataclass(frozen=True)
class TrustedKey:
    """A key that somebody was told to believe, and in what.

    Attributes:
        name: What the settings call it.
        key: The public key.
        roles: `builds`: claims about builds. `images`: attestations of images.
        platforms: For claims about builds: sets of facts, one of which the platform of the claim must have; `class` is
            its class. Any platform where there are none.
        expires: From when on it is not believed any more, whenever it signed: a signature has no time that can be
            believed. None: never.
    """

    name: str
    key: PublicKey
    roles: frozenset[Role] = frozenset({"builds"})
    platforms: tuple[Mapping[str, Any], ...] = ()
    expires: datetime | None = None


@dataclass(frozen=True)
class TrustPolicy:
    """What is asked of a claim before its outputs are taken for those of a build.

    Attributes:
        mode: `require`: a claim that is not vouched for is refused. `warn`: it is taken, and said. `off`: nothing is
            asked.
        threshold: How many different trusted keys must have signed the same outputs; from 1 on.
        revoked: Fingerprints of keys that are believed in nothing, whatever else names them.
    """

    mode: Mode = "require"
    threshold: int = 1
    revoked: frozenset[Sha256] = frozenset()


@dataclass(frozen=True)
class Decision:
    """What became of a claim.

    Attributes:
        accepted: Whether its outputs may be used.
        vouched: Whether as many trusted keys as the policy asks for have signed it, and none of them says otherwise.
            Accepted and not vouched for is what `warn` and `off` allow; say so, never call it trusted.
        signers: The trusted keys that signed it, by name.
        reasons: Why each document did not count, and what is missing; one sentence each, safe for a terminal once
            printed through `terminal.printable`.
    """

    accepted: bool
    vouched: bool
    signers: tuple[str, ...]
    reasons: tuple[str, ...]

    @property
    def cause(self) -> str:
        """The reasons as one text."""
        return "; ".join(self.reasons)


@dataclass
class _Count:
    """What the documents come to."""

    signers: dict[Sha256, str] = field(default_factory=dict)
    reasons: dict[str, None] = field(default_factory=dict)
    against: dict[str, None] = field(default_factory=dict)
    exact: bool = False


def accept_claim(
    claim: Claim,
    envelopes: Sequence[bytes],
    policy: TrustPolicy,
    keys: Sequence[TrustedKey],
    *,
    now: datetime,
) -> Decision:
    """Decide whether a claim is believed. Pure; raises nothing for whatever the documents hold.

    Args:
        claim: What is to be used: the key that was asked for, with the outputs that somebody says it gave.
        envelopes: Signed documents that came with it, from anybody: DSSE envelopes or Sigstore bundles, as JSON. Those
            that are about other keys, or state something else than a claim, do no harm.
        policy: What is asked.
        keys: The trusted keys.
        now: The time, with its zone; keys may have expired.
    """
    if policy.mode == "off":
        return Decision(True, False, (), ("signatures are not looked at: trust is off",))
    count = _Count()
    for data in envelopes[:MAX_ENVELOPES]:
        _weigh(claim, data, policy, keys, now, count)
    if len(envelopes) > MAX_ENVELOPES:
        count.reasons[f"only {MAX_ENVELOPES} of {len(envelopes)} signed documents were read"] = None
    enough = len(count.signers) >= max(1, policy.threshold)
    # Logs differ from build to build, so signers agree on what is compared. But nobody's log comes in unsigned.
    vouched = enough and count.exact and not count.against
    reasons = [*count.against, *count.reasons]
    if not enough:
        reasons.append(_missing(count, policy, keys))
    elif not count.exact:
        reasons.append(
            "trusted keys vouch for the compared outputs only, with other logs beside them"
        )
    return Decision(
        accepted=vouched or policy.mode == "warn",
        vouched=vouched,
        signers=tuple(sorted(count.signers.values())),
        reasons=tuple(reasons),
    )


def _weigh(
    claim: Claim,
    data: bytes,
    policy: TrustPolicy,
    keys: Sequence[TrustedKey],
    now: datetime,
    count: _Count,
) -> None:
    """Count one document for the claim, against it, or not at all with a reason."""
    try:
        document = SignedDocument.decode(data)
        payload = document.envelope.statement_payload()
        if statement.decode(payload, name="the statement").predicate_type != PREDICATE_TYPE:
            return  # provenance, or what else there is to say; it says nothing for or against a claim
        stated = Claim.decode(payload)
    except DisError as error:
        count.reasons[f"a signed document is not read: {error}"] = None
        return
    if stated.key != claim.key:
        count.reasons[f"a signed document is about another build, {stated.key}"] = None
        return
    speakers = [each for each in keys if document.is_signed_by(each.key)]
    if not speakers:
        count.reasons[_stranger(document, keys)] = None
    for each in speakers:
        if (objection := claim_objection(each, stated, policy, now)) is not None:
            count.reasons[f"the key {each.name} does not count: {objection}"] = None
        elif not same_result(stated, claim):
            count.against[f"the key {each.name} signed other outputs of the same build"] = None
        else:
            count.signers.setdefault(each.key.fingerprint, each.name)
            count.exact |= stated.outputs == claim.outputs


def claim_objection(
    key: TrustedKey, stated: Claim, policy: TrustPolicy, now: datetime
) -> str | None:
    """Return why a trusted key that did sign a claim does not count for it; None if it does."""
    if (objection := standing_objection(key, "builds", policy, now)) is not None:
        return objection
    if key.platforms and not any(_has(stated.platform, facts) for facts in key.platforms):
        return "it may not speak for the platform of this claim"
    return None


def standing_objection(
    key: TrustedKey, role: Role, policy: TrustPolicy, now: datetime
) -> str | None:
    """Return why a trusted key is not believed in a role at this time; None if it is."""
    if key.key.fingerprint in policy.revoked:
        return "it is revoked"
    if key.expires is not None and now >= key.expires:
        return f"it expired on {key.expires.date().isoformat()}"
    if role not in key.roles:
        return f"it is trusted for {', '.join(sorted(key.roles)) or 'nothing'}, not for {role}"
    return None


def _has(platform: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Tell whether a platform has a class and facts. Only equal types are equal: 1 is not true."""
    facts = platform.get("facts")
    found = {**facts, "class": platform.get("class")} if isinstance(facts, dict) else platform
    return all(
        name in found and type(found[name]) is type(value) and found[name] == value
        for name, value in wanted.items()
    )


def _stranger(document: SignedDocument, keys: Sequence[TrustedKey]) -> str:
    """Say of a document that no trusted key signed whether it pretends otherwise."""
    for each in keys:
        if each.key.hint in document.hints:
            return f"a signature names the key {each.name} and does not fit it"
    named = ", ".join(map(hint_text, sorted(document.hints))) or "one that it does not name"
    return f"a document is signed by no trusted key; the key it names is {named}"


def _missing(count: _Count, policy: TrustPolicy, keys: Sequence[TrustedKey]) -> str:
    if not keys:
        return "no key is trusted"
    have, need = len(count.signers), max(1, policy.threshold)
    if need == 1:
        return "no trusted key has signed it"
    return f"{have} of the {need} trusted keys that are asked for have signed it"
