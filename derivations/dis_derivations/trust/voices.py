"""Who says what about the derivations of a manifest: this store, and signed documents from anywhere."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from dis_derivations.trust import provenance, statement
from dis_derivations.trust.agreement import Comparison, Voice, compare
from dis_derivations.trust.claim import PREDICATE_TYPE, Claim
from dis_derivations.trust.policy import TrustedKey, TrustPolicy, standing_objection
from dis_derivations.trust.signed_document import SignedDocument
from dis_derivations.trust.signing import Build, builds_under, claim_of
from dis_store.digest import Digest, Sha256
from dis_store.errors import DisError

if TYPE_CHECKING:
    from dis_derivations.graph.derivation import Derivation
    from dis_store.reading import StoreReader


@dataclass(frozen=True)
class Audience:
    """Whose documents are heard.

    Attributes:
        keys: Keys whose claims count.
        known: Further keys, whose claims are shown and do not count, unless `everybody`.
        own: Fingerprints of the keys of this user, who vouches for this store.
        policy: What is revoked.
        now: The time; keys may have expired.
        everybody: Whether all keys count.
    """

    keys: Sequence[TrustedKey]
    known: Sequence[TrustedKey]
    own: frozenset[Sha256]
    policy: TrustPolicy
    now: datetime
    everybody: bool = False


@dataclass(frozen=True)
class Challenge:
    """What came of a challenge.

    Attributes:
        comparisons: One for each derivation that somebody may have built, inputs first.
        unheard: Why documents were not heard, each with how many.
    """

    comparisons: tuple[Comparison, ...]
    unheard: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Heard:
    """A document whose signature was verified."""

    key: TrustedKey
    trusted: bool
    claim: Claim | None
    derivation: Digest | None
    about: Digest | None


def challenge(
    store: "StoreReader",
    derivations: "Mapping[Digest, Derivation]",
    documents: Iterable[bytes],
    audience: Audience,
) -> Challenge:
    """Compare what builders say of the derivations of a manifest. Fixed outputs are left out: files decide there.

    Args:
        store: What was built here counts as a voice, and the signed documents in it are heard.
        derivations: By digest, inputs first.
        documents: Signed documents from elsewhere: claims, and provenance that ties keys to derivations.
        audience: Whose documents count.
    """
    builds = _builds_of(store, derivations)
    here = [
        data for build in builds.values() for data in store.signatures(build.record.key).values()
    ]
    unheard: dict[str, int] = {}
    heard = [
        each for data in (*documents, *here) if (each := _hear(data, audience, unheard)) is not None
    ]
    keys: dict[Digest, Digest] = {build.record.key: digest for digest, build in builds.items()}
    for each in heard:
        if each.trusted and each.about is not None and each.derivation is not None:
            keys |= {each.about: each.derivation} if each.derivation in derivations else {}
    voices = [
        Voice(each.key.key.fingerprint, each.key.name, each.trusted, each.claim)
        for each in heard
        if each.claim is not None and each.claim.key in keys
    ]
    voices += _own_voices(store, builds, voices, audience)
    return Challenge(compare(voices, wanted=_wanted(derivations, keys, voices)), unheard)


def _builds_of(
    store: "StoreReader", derivations: "Mapping[Digest, Derivation]"
) -> dict[Digest, Build]:
    """Return what this store built, by derivation; what came from elsewhere is not its word."""
    known = store.outputs_of(list(derivations))
    found: dict[Digest, Build] = {}
    for digest, outputs in known.items():
        records = [each for output in outputs.values() for each in store.builds_of(output)]
        for record in records:
            if all(outputs.get(name) == record.outputs[name] for name in record.compared):
                build = next(builds_under(store, record.key))
                if not build.obstacle:
                    found[digest] = build
                break
    return found


def _hear(data: bytes, audience: Audience, unheard: dict[str, int]) -> _Heard | None:
    try:
        document = SignedDocument.decode(data)
        payload = document.envelope.statement_payload()
        stated = statement.decode(payload, name="the statement")
        claim = Claim.decode(payload) if stated.predicate_type == PREDICATE_TYPE else None
    except DisError as error:
        _count(unheard, f"not read: {error}")
        return None
    for trusted, keys in ((True, audience.keys), (audience.everybody, audience.known)):
        for key in keys:
            if document.is_signed_by(key.key):
                if objection := standing_objection(key, "builds", audience.policy, audience.now):
                    _count(unheard, f"signed by {key.name}, which does not count: {objection}")
                    return None
                return _Heard(key, trusted, claim, *provenance.subject_of(stated))
    _count(unheard, "signed by a key that is neither trusted nor here")
    return None


def _count(unheard: dict[str, int], reason: str) -> None:
    unheard[reason] = unheard.get(reason, 0) + 1


def _own_voices(
    store: "StoreReader", builds: dict[Digest, Build], voices: Sequence[Voice], audience: Audience
) -> list[Voice]:
    """Return what this store built, but for what a key of this user has said already: one builder is one voice."""
    said = {
        (voice.claim.key, tuple(voice.claim.result.items()))
        for voice in voices
        if voice.signer in audience.own
    }
    claims = [claim_of(store, build) for build in builds.values()]
    return [
        Voice(None, "this store", True, claim)
        for claim in claims
        if (claim.key, tuple(claim.result.items())) not in said
    ]


def _wanted(
    derivations: "Mapping[Digest, Derivation]",
    keys: Mapping[Digest, Digest],
    voices: Sequence[Voice],
) -> list[tuple[Digest, str]]:
    """Return what is to be told of: of each derivation the subject that voices speak of, or itself where none does."""
    subjects: dict[Digest, set[Digest]] = {}
    for voice in voices:
        subject = voice.claim.platform_free_key or voice.claim.key
        subjects.setdefault(keys[voice.claim.key], set()).add(subject)
    return [
        (subject, derivation.name)
        for digest, derivation in derivations.items()
        if derivation.fixed_files is None
        for subject in sorted(subjects.get(digest, {digest}))
    ]
