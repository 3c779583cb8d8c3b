"""Attestations of images: whose they are, and that nothing is called verified that was not."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ObjectIdentifier
from hypothesis import given, settings
from hypothesis import strategies as st

from dis_derivations.trust import statement
from dis_derivations.trust.attestation_policy import AttestationPolicy, Identity
from dis_derivations.trust.attestations import Verified, judge_image, verify_attestation
from dis_derivations.trust.errors import UntrustedError
from dis_derivations.trust.policy import TrustPolicy
from dis_derivations.trust.public_key import PublicKey
from dis_derivations.trust.statement import PAYLOAD_TYPE, Subject
from dis_derivations.trust.transparency import root_of_path
from dis_derivations.trust.trusted_root import TrustedRoot
from dis_store.digest import Sha256
from dis_store.errors import DisError, InvalidInputError
from signers import NOW, signer, trusted
from sigstore_authority import ISSUER, SUBJECT, TIME, Authority, Leaf, b64, merkle

IMAGE = Sha256.of(b"the manifest of an image")
SLSA = "https://slsa.dev/provenance/v1"
PAYLOAD = statement.encode([Subject("image", {"sha256": IMAGE.hex})], SLSA, {"x": 1})
ROOT = Path("/trusted_root.json")
AUTHORITY = Authority()
IMAGES = frozenset({"images"})
KEYS = AttestationPolicy(NOW, "require", (trusted("alice", roles=IMAGES),))


def identity(issuer: str = ISSUER, subject: str = SUBJECT) -> Identity:
    return Identity("ci", issuer, subject, ROOT)


def policy(authority: Authority = AUTHORITY, **changes: Any) -> AttestationPolicy:
    plain = AttestationPolicy(
        NOW, "require", identities=(identity(),), roots={ROOT: authority.trusted_root()}
    )
    return replace(plain, **changes)


def verify(
    bundle: dict[str, Any], rules: AttestationPolicy | None = None, subject: Sha256 = IMAGE
) -> Verified:
    return verify_attestation(json.dumps(bundle).encode(), subject, rules or policy())


def check_refused(
    bundle: dict[str, Any], reason: str, rules: AttestationPolicy | None = None
) -> None:
    with pytest.raises(DisError) as caught:
        verify(bundle, rules)
    assert reason in str(caught.value), caught.value


# -- by a key --------------------------------------------------------------------------------------


def test_an_attestation_by_a_key_for_images_is_verified() -> None:
    found = verify_attestation(signer("alice").sign(PAYLOAD, PAYLOAD_TYPE), IMAGE, KEYS)
    assert (found.signer, found.how, found.predicate_type) == ("alice", "key", SLSA)
    assert found.predicate == {"x": 1}


def test_a_statement_of_the_older_version_is_read_too() -> None:
    old = PAYLOAD.replace(statement.TYPE.encode(), statement.OLD_TYPE.encode())
    assert verify_attestation(signer("alice").sign(old, PAYLOAD_TYPE), IMAGE, KEYS).how == "key"


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (replace(KEYS, keys=(trusted("alice"),)), "trusted for builds, not for images"),
        (replace(KEYS, keys=(trusted("bob", roles=IMAGES),)), "no key that is trusted"),
        (replace(KEYS, keys=()), "no key that is trusted"),
        (
            replace(
                KEYS, builds=TrustPolicy(revoked=frozenset({signer("alice").public.fingerprint}))
            ),
            "it is revoked",
        ),
        (replace(KEYS, keys=(trusted("alice", roles=IMAGES, expires=NOW),)), "it expired"),
        (replace(KEYS, predicate_types=frozenset({"https://spdx.dev/Document"})), "of the type"),
    ],
)
def test_an_attestation_by_a_key_that_does_not_count_is_refused(
    rules: AttestationPolicy, reason: str
) -> None:
    with pytest.raises(UntrustedError) as caught:
        verify_attestation(signer("alice").sign(PAYLOAD, PAYLOAD_TYPE), IMAGE, rules)
    assert reason in str(caught.value)


def test_an_attestation_of_another_image_is_refused() -> None:
    data = signer("alice").sign(PAYLOAD, PAYLOAD_TYPE)
    for subject in (Sha256.of(b"another"), Sha256(f"sha256:{'0' * 64}")):
        with pytest.raises(UntrustedError, match="not about"):
            verify_attestation(data, subject, KEYS)


def test_a_digest_under_another_name_is_not_the_one_that_is_asked_for() -> None:
    payload = statement.encode(
        [Subject("image", {"sha512": IMAGE.hex * 2, "gitCommit": IMAGE.hex})], SLSA, {}
    )
    with pytest.raises(UntrustedError, match="not about"):
        verify_attestation(signer("alice").sign(payload, PAYLOAD_TYPE), IMAGE, KEYS)


def test_a_payload_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="payloadType"):
        verify_attestation(signer("alice").sign(PAYLOAD, "text/plain"), IMAGE, KEYS)


# -- by a certificate ------------------------------------------------------------------------------


def test_an_attestation_with_a_certificate_is_verified_offline() -> None:
    found = verify(AUTHORITY.bundle(PAYLOAD))
    assert (found.signer, found.how) == ("ci", "certificate")
    assert "proof of inclusion under a signed head of the tree" in found.checked


def test_an_identity_may_end_with_anything_where_the_settings_say_so() -> None:
    prefix = SUBJECT.partition("@")[0]
    rules = policy(identities=(identity(subject=f"{prefix}@*"),))
    assert verify(AUTHORITY.bundle(PAYLOAD), rules).signer == "ci"
    check_refused(
        AUTHORITY.bundle(PAYLOAD), "the signer is", policy(identities=(identity(subject=prefix),))
    )


def test_a_mail_address_is_an_identity_too() -> None:
    bundle = AUTHORITY.bundle(PAYLOAD, Leaf(subject=x509.RFC822Name("a@example.com")))
    found = verify(bundle, policy(identities=(identity(subject="a@example.com"),)))
    assert found.signer == "ci"


@pytest.mark.parametrize("subject", ["https://github.com/evil/image", SUBJECT + "x", SUBJECT[:-1]])
def test_another_signer_is_refused(subject: str) -> None:
    leaf = Leaf(subject=x509.UniformResourceIdentifier(subject))
    check_refused(AUTHORITY.bundle(PAYLOAD, leaf), "the signer is")


def test_a_signer_whom_somebody_else_vouched_for_is_refused() -> None:
    check_refused(
        AUTHORITY.bundle(PAYLOAD, Leaf(issuer="https://evil.example")), "vouched for the signer"
    )


def test_a_certificate_is_refused_where_no_identity_is_trusted() -> None:
    check_refused(AUTHORITY.bundle(PAYLOAD), "no identity is trusted", KEYS)


def test_a_certificate_does_not_make_a_trusted_key_of_its_key() -> None:
    rules = policy(identities=(), keys=(trusted("alice", roles=IMAGES),))
    check_refused(AUTHORITY.bundle(PAYLOAD), "no identity is trusted", rules)


def test_another_authority_is_refused() -> None:
    other = Authority()
    other.rekor_key = AUTHORITY.rekor_key
    check_refused(other.bundle(PAYLOAD), "no authority of the trusted root")


def test_another_log_of_certificates_is_refused() -> None:
    other = Authority()
    other.root_key, other.issuing_key = AUTHORITY.root_key, AUTHORITY.issuing_key
    other.rekor_key = AUTHORITY.rekor_key
    other.__dict__["issuing"] = AUTHORITY.issuing
    check_refused(other.bundle(PAYLOAD), "promised to show its certificate")


def test_another_transparency_log_is_refused() -> None:
    other = Authority()
    other.root_key, other.issuing_key = AUTHORITY.root_key, AUTHORITY.issuing_key
    other.ct_key = AUTHORITY.ct_key
    other.__dict__["issuing"] = AUTHORITY.issuing
    check_refused(other.bundle(PAYLOAD), "its log is not one of the trusted root")


def test_a_certificate_that_was_not_logged_is_refused() -> None:
    check_refused(AUTHORITY.bundle(PAYLOAD, Leaf(logged=False)), "promised to show its certificate")


@pytest.mark.parametrize(
    "late", [timedelta(minutes=11), timedelta(minutes=-2), timedelta(days=300)]
)
def test_a_signature_outside_the_time_of_its_certificate_is_refused(late: timedelta) -> None:
    check_refused(AUTHORITY.bundle(PAYLOAD, time=TIME + late), "")


def test_a_signature_from_before_the_logs_were_in_use_is_refused() -> None:
    time = TIME - timedelta(days=60)
    bundle = AUTHORITY.bundle(PAYLOAD, Leaf(start=time), time=time)
    check_refused(bundle, "not in use")


def add(extension: x509.ExtensionType, *, critical: bool) -> Callable[[Any], Any]:
    return lambda builder: builder.add_extension(extension, critical=critical)


UNKNOWN = x509.UnrecognizedExtension(ObjectIdentifier("1.2.3.4"), b"\x05\x00")
LEAVES = {
    "for servers": (Leaf(code_signing=False), "may not sign code"),
    "of an authority": (
        Leaf(change=add(x509.BasicConstraints(ca=True, path_length=None), critical=True)),
        "one of an authority",
    ),
    "with a critical extension": (Leaf(change=add(UNKNOWN, critical=True)), "not checked here"),
    "of a host": (Leaf(subject=x509.DNSName("example.com")), "exactly one URI or mail address"),
}


@pytest.mark.parametrize("kind", LEAVES)
def test_a_certificate_of_another_kind_is_refused(kind: str) -> None:
    leaf, reason = LEAVES[kind]
    check_refused(AUTHORITY.bundle(PAYLOAD, leaf), reason)


def test_an_extension_that_is_not_critical_does_no_harm() -> None:
    assert (
        verify(AUTHORITY.bundle(PAYLOAD, Leaf(change=add(UNKNOWN, critical=False)))).signer == "ci"
    )


def test_an_authority_that_may_not_issue_is_refused() -> None:
    authority = Authority()
    authority.issuing_ca = False
    check_refused(authority.bundle(PAYLOAD), "may not issue others", policy(authority))


def test_an_authority_with_constraints_on_names_is_refused_since_they_are_not_checked() -> None:
    authority = Authority()
    names = x509.NameConstraints([x509.DNSName("example.com")], None)
    authority.issuing_change = add(names, critical=False)
    check_refused(authority.bundle(PAYLOAD), "2.5.29.30", policy(authority))


def entry(bundle: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = bundle["verificationMaterial"]["tlogEntries"][0]
    return found


def flip(owner: dict[str, Any], field: str) -> None:
    """Change the last bit of something in base64."""
    data = base64.b64decode(owner[field])
    owner[field] = b64(data[:-1] + bytes([data[-1] ^ 1]))


OTHER = AUTHORITY.bundle(PAYLOAD)
SPOILT: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no entry": lambda it: it["verificationMaterial"].update(tlogEntries=[]),
    "two entries": lambda it: it["verificationMaterial"]["tlogEntries"].append(entry(it)),
    "the entry of another bundle": lambda it: it["verificationMaterial"].update(tlogEntries=[entry(OTHER)]),
    "the certificate of another bundle": lambda it: it["verificationMaterial"].update(
        certificate=OTHER["verificationMaterial"]["certificate"]
    ),
    "the signature of another bundle": lambda it: it["dsseEnvelope"].update(
        signatures=OTHER["dsseEnvelope"]["signatures"]
    ),
    "another payload": lambda it: it["dsseEnvelope"].update(payload=b64(PAYLOAD.replace(b'"x":1', b'"x":2'))),
    "no promise": lambda it: entry(it).pop("inclusionPromise"),
    "another promise": lambda it: flip(entry(it)["inclusionPromise"], "signedEntryTimestamp"),
    "another time": lambda it: entry(it).update(integratedTime=str(int(TIME.timestamp()) + 1)),
    "another index": lambda it: entry(it).update(logIndex="43"),
    "no proof": lambda it: entry(it).pop("inclusionProof"),
    "a hash that is changed": lambda it: entry(it)["inclusionProof"].update(
        hashes=[b64(b"\x00" * 32), *entry(it)["inclusionProof"]["hashes"][1:]]
    ),
    "a hash too few": lambda it: entry(it)["inclusionProof"]["hashes"].pop(),
    "a hash too many": lambda it: entry(it)["inclusionProof"]["hashes"].append(b64(b"\x00" * 32)),
    "many hashes": lambda it: entry(it)["inclusionProof"].update(hashes=[b64(b"\x00" * 32)] * 65),
    "a place outside the tree": lambda it: entry(it)["inclusionProof"].update(logIndex="99"),
    "another place in the tree": lambda it: entry(it)["inclusionProof"].update(logIndex="0"),
    "another size of the tree": lambda it: entry(it)["inclusionProof"].update(treeSize="5"),
    "another root": lambda it: flip(entry(it)["inclusionProof"], "rootHash"),
    "another head of the tree": lambda it: entry(it)["inclusionProof"]["checkpoint"].update(
        envelope=entry(it)["inclusionProof"]["checkpoint"]["envelope"].replace("\n4\n", "\n5\n")
    ),
    "a head that nobody signed": lambda it: entry(it)["inclusionProof"]["checkpoint"].update(
        envelope=entry(it)["inclusionProof"]["checkpoint"]["envelope"].partition("\u2014")[0]
    ),
    "another body": lambda it: flip(entry(it), "canonicalizedBody"),
    "no body": lambda it: entry(it).pop("canonicalizedBody"),
    "a number that is negative": lambda it: entry(it).update(integratedTime="-1"),
    "a number that is a number": lambda it: entry(it).update(integratedTime=int(TIME.timestamp())),
    "a number of a thousand digits": lambda it: entry(it).update(logIndex="1" * 1000),
    "an entry that is a list": lambda it: it["verificationMaterial"].update(tlogEntries=[[]]),
    "a certificate that is none": lambda it: it["verificationMaterial"].update(certificate={"rawBytes": "AAAA"}),
}  # fmt: skip


@pytest.mark.parametrize("attack", SPOILT)
def test_a_bundle_that_was_spoilt_is_refused(attack: str) -> None:
    bundle = AUTHORITY.bundle(PAYLOAD)
    assert verify(bundle).signer == "ci"
    SPOILT[attack](bundle)
    check_refused(bundle, "")


def test_an_entry_of_a_kind_that_is_not_checked_is_refused() -> None:
    bundle = AUTHORITY.bundle(PAYLOAD)
    body = json.loads(base64.b64decode(entry(bundle)["canonicalizedBody"]))
    for kind, version in (("hashedrekord", "0.0.1"), ("dsse", "0.0.2"), ("rekord", "0.0.1")):
        changed = json.dumps({**body, "kind": kind, "apiVersion": version}).encode()
        bundle["verificationMaterial"]["tlogEntries"] = [AUTHORITY.entry(changed)]
        check_refused(bundle, "which is not checked here")


def test_an_entry_about_two_signatures_is_refused() -> None:
    bundle = AUTHORITY.bundle(PAYLOAD)
    body = json.loads(base64.b64decode(entry(bundle)["canonicalizedBody"]))
    body["spec"]["signatures"] *= 2
    bundle["verificationMaterial"]["tlogEntries"] = [AUTHORITY.entry(json.dumps(body).encode())]
    check_refused(bundle, "malformed")


def logged_again(bundle: dict[str, Any], **changes: str) -> dict[str, Any]:
    """Return a bundle whose entry says something else of the signature, and is in the log as that."""
    body = json.loads(base64.b64decode(entry(bundle)["canonicalizedBody"]))
    body["spec"]["signatures"][0].update(changes)
    bundle["verificationMaterial"]["tlogEntries"] = [AUTHORITY.entry(json.dumps(body).encode())]
    return bundle


def test_an_entry_about_another_certificate_of_the_same_signature_is_refused() -> None:
    other = json.loads(base64.b64decode(entry(OTHER)["canonicalizedBody"]))
    verifier = other["spec"]["signatures"][0]["verifier"]
    bundle = logged_again(AUTHORITY.bundle(PAYLOAD), verifier=verifier)
    check_refused(bundle, "about another certificate")


def test_a_signature_that_was_logged_and_that_the_key_did_not_make_is_refused() -> None:
    bundle = AUTHORITY.bundle(PAYLOAD)
    sig = OTHER["dsseEnvelope"]["signatures"][0]["sig"]
    bundle["dsseEnvelope"]["signatures"][0]["sig"] = sig
    check_refused(logged_again(bundle, signature=sig), "did not sign it")


def test_a_certificate_whose_key_is_revoked_is_refused() -> None:
    bundle = AUTHORITY.bundle(PAYLOAD)
    der = base64.b64decode(bundle["verificationMaterial"]["certificate"]["rawBytes"])
    key = x509.load_der_x509_certificate(der).public_key()
    fingerprint = PublicKey.from_loaded(key, name="it").fingerprint
    rules = policy(builds=TrustPolicy(revoked=frozenset({fingerprint})))
    check_refused(bundle, "is revoked", rules)


def test_a_time_that_only_a_timestamp_authority_tells_is_refused_and_said() -> None:
    bundle = AUTHORITY.bundle(PAYLOAD)
    del entry(bundle)["inclusionPromise"]
    bundle["verificationMaterial"]["timestampVerificationData"] = {
        "rfc3161Timestamps": [{"signedTimestamp": "AAAA"}]
    }
    check_refused(bundle, "timestamps of other authorities are not checked here")


@given(size=st.integers(1, 40), data=st.data())
@settings(max_examples=80)
def test_a_path_leads_to_the_root_from_its_own_place_only(size: int, data: st.DataObject) -> None:
    leaves = [b"%d" % number for number in range(size)]
    at = data.draw(st.integers(0, size - 1))
    root, path = merkle(leaves, at)
    leaf = sha256(b"\x00" + leaves[at]).digest()
    assert root_of_path(leaf, at, size, path) == root
    other = data.draw(st.integers(0, size + 2))
    if other != at:
        assert root_of_path(leaf, other, size, path) != root
    assert root_of_path(leaf, at, size, [*path, b"\x00" * 32]) != root
    if path:
        assert root_of_path(leaf, at, size, path[:-1]) != root


# -- what is decided -------------------------------------------------------------------------------


def test_off_asks_for_nothing_and_vouches_for_nothing() -> None:
    decision = judge_image([], IMAGE, policy(mode="off"))
    assert decision.accepted
    assert not decision.vouched


def test_require_wants_one_good_attestation_among_all() -> None:
    good = json.dumps(AUTHORITY.bundle(PAYLOAD)).encode()
    assert judge_image([b"rubbish", good], IMAGE, policy()).signers == ("ci",)
    bad = judge_image([b"rubbish"], IMAGE, policy())
    assert not bad.accepted
    assert bad.reasons
    assert "no attestation" in judge_image([], IMAGE, policy()).cause
    assert "no key and no identity" in judge_image([good], IMAGE, policy(identities=())).cause


def test_warn_takes_an_image_and_says_what_is_wrong() -> None:
    decision = judge_image([], IMAGE, policy(mode="warn"))
    assert decision.accepted
    assert not decision.vouched
    assert decision.reasons


def test_a_trusted_root_that_is_none_is_refused() -> None:
    good = json.loads(AUTHORITY.trusted_root())
    changes: tuple[dict[str, Any], ...] = (
        {"mediaType": "x"},
        {"tlogs": {}},
        {"tlogs": [{}]},
        {"certificateAuthorities": [1]},
    )
    for change in changes:
        with pytest.raises(InvalidInputError):
            TrustedRoot.decode(json.dumps(good | change).encode())


def test_a_log_whose_key_is_of_a_kind_that_is_not_used_is_left_out() -> None:
    good = json.loads(AUTHORITY.trusted_root())
    good["tlogs"][0]["publicKey"]["rawBytes"] = b64(b"no key")
    assert not TrustedRoot.decode(json.dumps(good).encode()).transparency_logs
