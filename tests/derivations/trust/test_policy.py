"""The policy: which claims are believed, and every way to talk it into believing another one."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.trust import statement
from dis_derivations.trust.claim import Claim
from dis_derivations.trust.envelope import Envelope, Signature, pre_authentication_encoding
from dis_derivations.trust.policy import (
    MAX_ENVELOPES,
    Decision,
    TrustedKey,
    TrustPolicy,
    accept_claim,
)
from dis_derivations.trust.signed_document import encode_bundle
from dis_derivations.trust.statement import PAYLOAD_TYPE, Subject
from dis_store.digest import Digest
from signers import NOW, claim_of, signed, signer, trusted

CLAIM = claim_of()
OTHER = claim_of(results="others")
ALICE, BOB, CAROL = trusted("alice"), trusted("bob"), trusted("carol")


def decide(
    documents: Sequence[bytes],
    keys: Sequence[TrustedKey] = (ALICE,),
    claim: Claim = CLAIM,
    **policy: Any,
) -> Decision:
    return accept_claim(claim, documents, TrustPolicy(**policy), keys, now=NOW)


def check_refused(decision: Decision, reason: str) -> None:
    assert not decision.accepted
    assert not decision.vouched
    assert reason in decision.cause


def test_a_claim_that_a_trusted_key_signed_is_believed() -> None:
    decision = decide([signed("alice", CLAIM)])
    assert decision.accepted
    assert decision.vouched
    assert decision.signers == ("alice",)


def test_a_claim_that_nobody_signed_is_refused() -> None:
    check_refused(decide([]), "no trusted key has signed it")


def test_a_claim_is_refused_where_no_key_is_trusted() -> None:
    check_refused(decide([signed("alice", CLAIM)], keys=()), "no key is trusted")


def test_a_claim_that_a_stranger_signed_is_refused() -> None:
    decision = decide([signed("bob", CLAIM)])
    check_refused(decision, "no trusted key has signed it")
    assert str(signer("bob").public.fingerprint) in decision.cause


def test_warn_takes_what_nobody_vouches_for_and_does_not_call_it_vouched_for() -> None:
    decision = decide([signed("bob", CLAIM)], mode="warn")
    assert decision.accepted
    assert not decision.vouched
    assert decision.reasons


def test_off_looks_at_nothing_and_vouches_for_nothing() -> None:
    decision = decide([b"no document", signed("alice", CLAIM)], mode="off")
    assert decision.accepted
    assert not decision.vouched
    assert decision.signers == ()


def test_other_logs_do_not_keep_signers_from_agreeing() -> None:
    documents = [signed("alice", CLAIM), signed("bob", claim_of(log="another log"))]
    decision = decide(documents, keys=(ALICE, BOB), threshold=2)
    assert decision.vouched
    assert decision.signers == ("alice", "bob")


# -- thresholds ------------------------------------------------------------------------------------


def test_a_threshold_counts_keys_and_not_documents() -> None:
    again = [signed("alice", CLAIM), signed("alice", claim_of(log="again"))]
    check_refused(decide(again, keys=(ALICE, BOB), threshold=2), "1 of the 2")


def test_one_key_under_two_names_is_one_key() -> None:
    twice = (ALICE, replace(ALICE, name="alice again"))
    check_refused(decide([signed("alice", CLAIM)], keys=twice, threshold=2), "1 of the 2")


def test_one_key_signing_twice_in_an_envelope_is_one_key() -> None:
    message = pre_authentication_encoding(PAYLOAD_TYPE, CLAIM.encode())
    signature = Signature(signer("alice").loaded.sign(message))
    twice = Envelope(PAYLOAD_TYPE, CLAIM.encode(), (signature, signature)).encode()
    check_refused(decide([twice], keys=(ALICE, BOB), threshold=2), "1 of the 2")


def test_two_signatures_in_one_envelope_are_two_signers() -> None:
    message = pre_authentication_encoding(PAYLOAD_TYPE, CLAIM.encode())
    both = tuple(Signature(signer(name).loaded.sign(message)) for name in ("alice", "bob"))
    envelope = Envelope(PAYLOAD_TYPE, CLAIM.encode(), both).encode()
    assert decide([envelope], keys=(ALICE, BOB), threshold=2).vouched


@given(
    names=st.sets(st.sampled_from(["alice", "bob", "carol"])),
    believed=st.sets(st.sampled_from(["alice", "bob", "carol"])),
    threshold=st.integers(0, 4),
)
def test_a_claim_is_believed_exactly_when_enough_trusted_keys_signed_it(
    names: set[str], believed: set[str], threshold: int
) -> None:
    documents = [signed(name, CLAIM) for name in sorted(names)]
    keys = [trusted(name) for name in sorted(believed)]
    decision = decide(documents, keys, threshold=threshold)
    assert decision.vouched == (len(names & believed) >= max(1, threshold))
    assert decision.signers == tuple(sorted(names & believed))


def test_a_threshold_of_nothing_asks_for_one_all_the_same() -> None:
    check_refused(decide([], threshold=0), "no trusted key has signed it")


# -- attacks ---------------------------------------------------------------------------------------


def test_a_signature_over_other_outputs_does_not_vouch_for_these() -> None:
    check_refused(decide([signed("alice", OTHER)]), "alice signed other outputs")


def test_a_signer_who_says_both_is_not_believed() -> None:
    both = [signed("alice", CLAIM), signed("alice", OTHER)]
    check_refused(decide(both), "alice signed other outputs")
    assert decide(both, mode="warn").accepted


def test_a_trusted_key_that_says_otherwise_stops_the_others() -> None:
    documents = [signed("alice", CLAIM), signed("bob", OTHER)]
    check_refused(decide(documents, keys=(ALICE, BOB)), "bob signed other outputs")


def test_a_stranger_who_says_otherwise_stops_nobody() -> None:
    assert decide([signed("alice", CLAIM), signed("bob", OTHER)]).vouched


def test_a_log_that_nobody_signed_does_not_come_in_with_outputs_that_somebody_did() -> None:
    poisoned = claim_of(log="a log with something in it")
    check_refused(decide([signed("alice", CLAIM)], claim=poisoned), "with other logs")


def test_a_signature_about_another_key_does_not_vouch_for_this_one() -> None:
    other = claim_of(name="another generation")
    check_refused(decide([signed("alice", other)]), "another build")


def test_a_signature_for_another_platform_does_not_vouch_for_this_one() -> None:
    other = claim_of(platform={"accelerator": "another"})
    check_refused(decide([signed("alice", other)]), "another build")


def test_what_is_compared_may_not_be_less_than_what_is_asked_for() -> None:
    less = replace(CLAIM, compared=("log",))
    check_refused(decide([signed("alice", less)]), "other outputs")


def test_a_statement_of_another_kind_with_the_same_subjects_is_no_claim() -> None:
    subjects = [Subject(name, {"sha256": each.sha256.hex}) for name, each in CLAIM.outputs.items()]
    predicate = json.loads(CLAIM.encode())["predicate"]
    payload = statement.encode(subjects, "https://slsa.dev/provenance/v1", predicate)
    check_refused(
        decide([signer("alice").sign(payload, PAYLOAD_TYPE)]), "no trusted key has signed"
    )


def test_a_claim_under_another_payload_type_is_no_claim() -> None:
    document = signer("alice").sign(CLAIM.encode(), "application/json")
    check_refused(decide([document]), "payloadType")


def test_a_document_that_names_a_trusted_key_and_is_not_signed_by_it_is_called_what_it_is() -> None:
    message = pre_authentication_encoding(PAYLOAD_TYPE, CLAIM.encode())
    hint = signer("alice").public.hint
    forged = Envelope(
        PAYLOAD_TYPE, CLAIM.encode(), (Signature(signer("bob").loaded.sign(message), hint),)
    )
    check_refused(decide([encode_bundle(forged, hint)]), "names the key alice and does not fit it")


def test_a_claim_in_another_form_than_the_canonical_one_is_refused() -> None:
    loose = json.dumps(json.loads(CLAIM.encode()), indent=1).encode()
    check_refused(decide([signer("alice").sign(loose, PAYLOAD_TYPE)]), "canonical")


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"null", b"\xff", b'{"payload":', b"[" * 10_000]
)
def test_rubbish_is_a_reason_and_never_an_accident(data: bytes) -> None:
    check_refused(decide([data]), "not read")
    assert decide([data, signed("alice", CLAIM)]).vouched


@given(data=st.binary(max_size=200))
def test_no_bytes_are_believed_by_chance(data: bytes) -> None:
    assert not decide([data]).accepted


def test_only_so_many_documents_are_read() -> None:
    flood = [b"x"] * MAX_ENVELOPES
    check_refused(decide([*flood, signed("alice", CLAIM)]), "were read")
    assert decide([signed("alice", CLAIM), *flood]).vouched


# -- what a key may say ----------------------------------------------------------------------------


def test_a_revoked_key_is_believed_in_nothing() -> None:
    revoked = frozenset({signer("alice").public.fingerprint})
    check_refused(decide([signed("alice", CLAIM)], revoked=revoked), "it is revoked")


def test_a_revoked_key_stops_nobody() -> None:
    revoked = frozenset({signer("bob").public.fingerprint})
    documents = [signed("alice", CLAIM), signed("bob", OTHER)]
    assert decide(documents, keys=(ALICE, BOB), revoked=revoked).vouched


def test_a_key_that_expired_does_not_count_whenever_it_signed() -> None:
    for passed, expires in (
        (True, NOW),
        (True, NOW - timedelta(days=1)),
        (False, NOW + timedelta(1)),
    ):
        decision = decide([signed("alice", CLAIM)], keys=(trusted("alice", expires=expires),))
        assert decision.vouched != passed
        assert ("it expired on" in decision.cause) == passed


def test_a_key_for_images_does_not_vouch_for_builds() -> None:
    key = trusted("alice", roles=frozenset({"images"}))
    check_refused(
        decide([signed("alice", CLAIM)], keys=(key,)), "trusted for images, not for builds"
    )


@pytest.mark.parametrize(
    ("allowed", "may"),
    [
        ({"accelerator": "H200"}, True),
        ({"class": "cuda"}, True),
        ({"class": "cuda", "accelerator": "H200", "count": 1}, True),
        ({"accelerator": "A100"}, False),
        ({"class": "any"}, False),
        ({"accelerator": "H200", "driver": "1"}, False),
        ({"count": True}, False),
        ({"count": "1"}, False),
    ],
)
def test_a_key_speaks_for_its_platforms_only(allowed: dict[str, Any], may: bool) -> None:
    claim = claim_of(platform={"accelerator": "H200", "count": 1})
    key = trusted("alice", platforms=({"accelerator": "none"}, allowed))
    decision = decide([signed("alice", claim)], keys=(key,), claim=claim)
    assert decision.vouched == may
    assert may or "may not speak for the platform" in decision.cause


def test_reasons_are_told_once() -> None:
    decision = decide([b"{}"] * 5)
    assert len(decision.reasons) == 2
    assert Digest.of(b"") not in decision.cause
