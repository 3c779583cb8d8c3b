"""Who vouches for the builds that a root stands for, or for objects without records, by signatures in the store."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from dis_derivations.trust.claim import Claim
from dis_derivations.trust.policy import (
    MAX_ENVELOPES,
    Decision,
    TrustedKey,
    TrustPolicy,
    accept_claim,
)
from dis_derivations.trust.signed_document import SignedDocument
from dis_derivations.trust.signing import Build, all_builds, claim_of
from dis_store.digest import Digest, Sha256
from dis_store.errors import DisError, InvalidInputError

if TYPE_CHECKING:
    from dis_store.reading import StoreReader


@dataclass(frozen=True)
class Vouched:
    """A build, and whether it is vouched for.

    Attributes:
        name: What people know it by.
        builder: The kind of build.
        key: What it is remembered by.
        origin: Where its record comes from; `claimed` where there is none, and signed documents alone tell of it.
        decision: None where nobody need vouch, since its files are known by digest.
    """

    name: str
    builder: str
    key: Digest
    origin: str
    decision: Decision | None

    @property
    def good(self) -> bool:
        """Whether as many trusted keys as the policy asks for have signed it, or none need to."""
        return self.decision is None or self.decision.vouched


def vouch(
    store: "StoreReader",
    builds: Sequence[Build],
    policy: TrustPolicy,
    keys: Sequence[TrustedKey],
    now: datetime,
) -> list[Vouched]:
    """Return for each build who vouches for it.

    The claim is made anew of the record and the objects, so a signature over anything else counts for nothing.

    Raises:
        IntegrityError: An output is not in the store.
    """
    found = []
    for build in builds:
        record = build.record
        decision = None
        if build.obstacle != "fixed output":
            documents = dict(store.signatures(record.key))
            for digest in record.outputs.values():
                documents |= store.signatures(digest)
            claim = claim_of(store, build)
            heard = _trusted_first(list(documents.values()), keys)
            decision = accept_claim(claim, heard, policy, keys, now=now)
        found.append(Vouched(build.name, record.builder, record.key, record.origin, decision))
    return found


def vouch_for(
    store: "StoreReader",
    ref: str,
    policy: TrustPolicy,
    keys: Sequence[TrustedKey],
    now: datetime,
) -> list[Vouched]:
    """Return who vouches for what a REF stands for: for its builds, or for its objects where no build is recorded.

    Raises:
        InvalidInputError: It names nothing that a build made, as far as the store knows or was told.
        IntegrityError: An output is not in the store.
    """
    from dis_derivations.runs.reference import resolve

    try:
        builds = all_builds(store, ref)
    except InvalidInputError:
        digest = resolve(store, ref).object()  # type: ignore[arg-type]  # it only asks
        found = {
            each: list(_claimed(store, each, policy, keys, now)) for each in store.closure([digest])
        }
        if not found[digest]:
            raise
        return [*found.pop(digest), *(row for rows in found.values() for row in rows)]
    return vouch(store, builds, policy, keys, now)


def _claimed(
    store: "StoreReader",
    digest: Digest,
    policy: TrustPolicy,
    keys: Sequence[TrustedKey],
    now: datetime,
) -> Iterator[Vouched]:
    """Yield the builds that signed documents say an object came out of: those vouched for, or all if none is.

    Anybody can claim that an object came out of something. So what strangers say beside others does no harm.
    """
    documents = _trusted_first(list(store.signatures(digest).values()), keys)
    rows = [
        Vouched(claim.builder, claim.builder, claim.key, "claimed", decision)
        for claim in _claims_about(store, digest, documents)
        for decision in (accept_claim(claim, documents, policy, keys, now=now),)
    ]
    yield from [each for each in rows if each.good] or rows


def _trusted_first(documents: Sequence[bytes], keys: Sequence[TrustedKey]) -> Sequence[bytes]:
    """Return documents, where they are more than are read those first that one of the keys signed.

    Archives bring documents of anybody, who could else keep those from being read that count.
    """
    if len(documents) <= MAX_ENVELOPES:
        return documents

    def is_of_stranger(data: bytes) -> bool:
        with suppress(DisError):
            document = SignedDocument.decode(data)
            return not any(document.is_signed_by(each.key) for each in keys)
        return True

    return sorted(documents, key=is_of_stranger)


def _claims_about(
    store: "StoreReader", digest: Digest, documents: Sequence[bytes]
) -> Iterator[Claim]:
    """Yield the different claims that a build gave an object, in the order of their bytes; who made them is open."""
    sha256 = Sha256.of(store.tree(digest).encode())
    found: dict[bytes, Claim] = {}
    for data in documents:
        with suppress(DisError):
            payload = SignedDocument.decode(data).envelope.statement_payload()
            claim = Claim.decode(payload)
            if any(
                (each.object, each.sha256) == (digest, sha256) for each in claim.outputs.values()
            ):
                found[payload] = claim
    return iter([found[payload] for payload in sorted(found)])
