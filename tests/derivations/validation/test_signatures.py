"""What signed documents about a run are worth is said of each, and never more than was verified."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dis_derivations.trust.policy import TrustPolicy
from dis_derivations.trust.public_key import PublicKey
from dis_derivations.trust.statement import PAYLOAD_TYPE, Subject, encode
from dis_derivations.validation.signatures import Signatories, Signature, Standing, judge
from dis_store.digest import Digest
from signers import NOW, claim_of, signed, signer, trusted

CLAIM = claim_of()
RESULTS = CLAIM.outputs["results"].object


def signatories(
    *names: str, known: tuple[str, ...] = (), revoked: tuple[str, ...] = (), **changes: Any
) -> Signatories:
    fingerprints = frozenset(signer(name).public.fingerprint for name in revoked)
    ring: dict[str, PublicKey] = {name: signer(name).public for name in known}
    keys = tuple(trusted(name, **changes) for name in names)
    return Signatories(TrustPolicy(revoked=fingerprints), keys, ring, NOW)


def judged(document: bytes, whom: Signatories) -> Signature:
    (found,) = judge({Digest.of(document): document}, CLAIM.key, RESULTS, whom)
    return found


def test_a_trusted_key_is_named() -> None:
    found = judged(signed("alice", CLAIM), signatories("alice"))

    assert (found.standing, found.key, found.about) == ("trusted", "alice", "claim")
    assert found.account == "verified: signed by the trusted key alice"


def test_a_key_that_is_merely_there_is_not_trusted() -> None:
    found = judged(signed("alice", CLAIM), signatories("bob", known=("alice",)))

    assert (found.standing, found.key) == ("not trusted", "alice")


def test_a_key_that_is_not_there_verifies_nothing() -> None:
    found = judged(signed("alice", CLAIM), signatories("bob"))

    assert found.standing == "unknown key"
    assert found.account.startswith("NOT VERIFIED")
    assert str(signer("alice").public.fingerprint) in found.account


@pytest.mark.parametrize("place", ["trusted", "known", "nowhere"])
def test_a_revoked_key_is_revoked_wherever_it_is(place: str) -> None:
    whom = {
        "trusted": signatories("alice", revoked=("alice",)),
        "known": signatories(known=("alice",), revoked=("alice",)),
        "nowhere": signatories(revoked=("alice",)),
    }[place]

    assert judged(signed("alice", CLAIM), whom).standing == "revoked"


def test_a_key_that_expired_or_is_for_images_is_not_trusted() -> None:
    for changes in ({"expires": NOW - timedelta(days=1)}, {"roles": frozenset({"images"})}):
        assert judged(signed("alice", CLAIM), signatories("alice", **changes)).standing == (
            "not trusted"
        )


def test_a_key_that_may_not_speak_for_the_platform_is_not_trusted() -> None:
    found = judged(signed("alice", CLAIM), signatories("alice", platforms=({"class": "cuda"},)))

    assert found.standing == "not trusted"
    assert "platform" in found.account


def test_changed_bytes_do_not_verify() -> None:
    other = replace(CLAIM, builder="run")
    forged = signed("alice", CLAIM).replace(
        signed("alice", CLAIM).split(b'"payload":"')[1].split(b'"')[0],
        signed("alice", other).split(b'"payload":"')[1].split(b'"')[0],
    )

    found = judged(forged, signatories("alice"))

    assert found.standing == "invalid"
    assert "does not verify" in found.account


@pytest.mark.parametrize("data", [b"", b"{}", b"no document", signed("alice", CLAIM)[:-5]])
def test_what_is_no_signed_document_does_not_verify(data: bytes) -> None:
    assert judged(data, signatories("alice")).standing == "invalid"


def test_a_trusted_key_that_signed_other_results_does_not_vouch_for_these() -> None:
    found = judged(signed("alice", claim_of(results="others")), signatories("alice"))

    assert found.standing == "other"
    assert "OTHER RESULTS" in found.account


def test_a_claim_about_another_build_is_said_to_be() -> None:
    found = judged(signed("alice", claim_of("elsewhere")), signatories("alice"))

    assert found.standing == "other"
    assert "another build" in found.account


def test_any_other_statement_is_no_claim() -> None:
    payload = encode([Subject("x", {"sha256": "0" * 64})], "https://example.com/any", {})

    found = judged(signer("alice").sign(payload, PAYLOAD_TYPE), signatories("alice"))

    assert (found.about, found.standing) == ("other", "trusted")


def test_what_is_trusted_comes_first() -> None:
    documents = [signed(name, CLAIM) for name in ("carol", "bob", "alice")]

    found = judge(
        {Digest.of(each): each for each in documents},
        CLAIM.key,
        RESULTS,
        signatories("alice", known=("bob",)),
    )

    expected: list[Standing] = ["trusted", "not trusted", "unknown key"]
    assert [each.standing for each in found] == expected
