"""Signed documents: DSSE as its specification has it, Sigstore bundles that others can read, and what is refused."""

import base64
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.trust.envelope import (
    MAX_SIGNATURES,
    Envelope,
    Signature,
    pre_authentication_encoding,
)
from dis_derivations.trust.signed_document import (
    MAX_DOCUMENT_BYTES,
    MEDIA_TYPE,
    SignedDocument,
    encode_bundle,
)
from dis_derivations.trust.statement import PAYLOAD_TYPE
from dis_store.errors import InvalidInputError
from signers import claim_of, signed, signer

ALICE, BOB = signer("alice"), signer("bob")


def bundle(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(signed("alice", claim_of()))
    for path, value in changes.items():
        *owners, last = path.split("__")
        owner: Any = document
        for each in owners:
            owner = owner[int(each)] if isinstance(owner, list) else owner[each]
        owner[last] = value
    return document


def read(document: Any) -> SignedDocument:
    return SignedDocument.decode(json.dumps(document).encode())


def test_the_encoding_before_signing_is_that_of_the_specification() -> None:
    encoded = pre_authentication_encoding("http://example.com/HelloWorld", b"hello world")
    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert pre_authentication_encoding("é", b"") == b"DSSEv1 2 \xc3\xa9 0 "


@given(kind=st.text(), payload=st.binary(), other_kind=st.text(), other=st.binary())
def test_no_two_messages_are_signed_as_one(
    kind: str, payload: bytes, other_kind: str, other: bytes
) -> None:
    same = (kind, payload) == (other_kind, other)
    try:
        encoded = pre_authentication_encoding(kind, payload)
        assert (encoded == pre_authentication_encoding(other_kind, other)) == same
    except UnicodeEncodeError:
        return


def test_openssl_finds_the_signature_good(tmp_path: Path) -> None:
    document = SignedDocument.decode(signed("alice", claim_of()))
    for name, data in (
        ("key", ALICE.public.to_pem()),
        ("signature", document.envelope.signatures[0].sig),
        ("message", document.envelope.signed_bytes),
    ):
        (tmp_path / name).write_bytes(data)
    command: list[str | Path] = [
        "openssl", "pkeyutl", "-verify", "-pubin", "-inkey", tmp_path / "key", "-rawin",
        "-in", tmp_path / "message", "-sigfile", tmp_path / "signature",
    ]  # fmt: skip
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    (tmp_path / "message").write_bytes(document.envelope.signed_bytes + b" ")
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


def test_what_openssl_signed_is_found_good(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(BOB.to_pem(None))
    payload = claim_of().encode()
    (tmp_path / "message").write_bytes(pre_authentication_encoding(PAYLOAD_TYPE, payload))
    command: list[str | Path] = [
        "openssl", "pkeyutl", "-sign", "-inkey", tmp_path / "key", "-rawin",
        "-in", tmp_path / "message",
    ]  # fmt: skip
    signature = subprocess.run(command, check=True, capture_output=True).stdout
    envelope = Envelope(PAYLOAD_TYPE, payload, (Signature(signature),))
    document = SignedDocument.decode(envelope.encode())
    assert document.is_signed_by(BOB.public)
    assert not document.is_signed_by(ALICE.public)


def test_a_bundle_is_what_its_specification_asks_for() -> None:
    document = bundle()
    assert document["mediaType"] == MEDIA_TYPE == "application/vnd.dev.sigstore.bundle.v0.3+json"
    assert set(document) == {"mediaType", "verificationMaterial", "dsseEnvelope"}
    hint = document["verificationMaterial"]["publicKey"]["hint"]
    (signature,) = document["dsseEnvelope"]["signatures"]
    assert signature["keyid"] == hint
    assert base64.b64decode(hint).hex() == ALICE.public.fingerprint.hex
    assert document["dsseEnvelope"]["payloadType"] == "application/vnd.in-toto+json"


def test_signing_twice_gives_the_same_bytes() -> None:
    assert signed("alice", claim_of()) == signed("alice", claim_of())


@given(payload=st.binary(), kind=st.text(min_size=1), key_id=st.text(), sig=st.binary(max_size=80))
def test_an_envelope_is_read_back_as_it_was(
    payload: bytes, kind: str, key_id: str, sig: bytes
) -> None:
    envelope = Envelope(kind, payload, (Signature(sig, key_id),))
    try:
        data = envelope.encode()
    except InvalidInputError:
        return
    assert SignedDocument.decode(data).envelope == envelope
    assert SignedDocument.decode(encode_bundle(envelope, key_id)).envelope == envelope


def test_a_bundle_of_an_older_version_is_read_too() -> None:
    for version in ("0.1", "0.2", "0.3"):
        kind = f"application/vnd.dev.sigstore.bundle+json;version={version}"
        assert read(bundle(mediaType=kind)).is_signed_by(ALICE.public)


# -- attacks ---------------------------------------------------------------------------------------


def test_a_changed_payload_is_signed_by_nobody() -> None:
    other = base64.b64encode(claim_of(results="others").encode()).decode()
    assert not read(bundle(dsseEnvelope__payload=other)).is_signed_by(ALICE.public)


def test_a_changed_payload_type_is_signed_by_nobody() -> None:
    changed = read(bundle(dsseEnvelope__payloadType="text/plain"))
    assert not changed.is_signed_by(ALICE.public)
    with pytest.raises(InvalidInputError, match="payloadType"):
        changed.envelope.statement_payload()


def test_a_signature_over_the_payload_alone_does_not_count() -> None:
    payload = claim_of().encode()
    bare = Envelope(PAYLOAD_TYPE, payload, (Signature(ALICE.loaded.sign(payload)),))
    assert not SignedDocument.decode(bare.encode()).is_signed_by(ALICE.public)


def test_the_name_of_a_key_proves_nothing() -> None:
    forged = bundle(
        verificationMaterial__publicKey={"hint": BOB.public.hint},
        dsseEnvelope__signatures__0__keyid=BOB.public.hint,
    )
    assert not read(forged).is_signed_by(BOB.public)
    assert read(forged).is_signed_by(ALICE.public)


def test_a_signature_of_another_key_among_several_counts_for_that_key_only() -> None:
    payload = claim_of().encode()
    message = pre_authentication_encoding(PAYLOAD_TYPE, payload)
    two = Envelope(
        PAYLOAD_TYPE,
        payload,
        (Signature(b"\x00" * 64), Signature(BOB.loaded.sign(message))),
    )
    document = SignedDocument.decode(two.encode())
    assert document.is_signed_by(BOB.public)
    assert not document.is_signed_by(ALICE.public)


def test_a_stripped_signature_is_refused() -> None:
    stripped: tuple[Any, ...] = ([], None, {})
    for signatures in stripped:
        with pytest.raises(InvalidInputError):
            read(bundle(dsseEnvelope__signatures=signatures))
    document = bundle()
    del document["dsseEnvelope"]["signatures"]
    with pytest.raises(InvalidInputError):
        read(document)


def second_signature(document: dict[str, Any]) -> None:
    document["dsseEnvelope"]["signatures"] *= 2


REFUSED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a second signature in a bundle": second_signature,
    "another name for the key in the envelope": lambda it: it["dsseEnvelope"]["signatures"][0].update(keyid="x"),
    "an unknown field of the bundle": lambda it: it.update(x=1),
    "an unknown field of the envelope": lambda it: it["dsseEnvelope"].update(x=1),
    "an unknown field of a signature": lambda it: it["dsseEnvelope"]["signatures"][0].update(ext={}),
    "an unknown field of the material": lambda it: it["verificationMaterial"].update(x=1),
    "an unknown field of the public key": lambda it: it["verificationMaterial"]["publicKey"].update(rawBytes=""),
    "another media type": lambda it: it.update(mediaType="application/json"),
    "a media type of a version to come": lambda it: it.update(mediaType=MEDIA_TYPE.replace("3", "9")),
    "a signature of a file beside the envelope": lambda it: it.update(messageSignature={}),
    "a signature of a file alone": lambda it: (it.update(messageSignature={}), it.pop("dsseEnvelope")),
    "a key and a certificate": lambda it: it["verificationMaterial"].update(certificate={"rawBytes": "AAAA"}),
    "neither a key nor a certificate": lambda it: it["verificationMaterial"].pop("publicKey"),
    "no material": lambda it: it.pop("verificationMaterial"),
    "base64 for URLs": lambda it: it["dsseEnvelope"]["signatures"][0].update(sig="-_-_"),
    "base64 with line ends": lambda it: it["dsseEnvelope"].update(payload="AAAA\nAAAA"),
    "base64 without padding": lambda it: it["dsseEnvelope"].update(payload="AA"),
    "base64 with bits that say nothing": lambda it: it["dsseEnvelope"].update(payload="AB=="),
    "a payload that is no text": lambda it: it["dsseEnvelope"].update(payload=1),
    "no payload type": lambda it: it["dsseEnvelope"].update(payloadType=""),
    "a very long signature": lambda it: it["dsseEnvelope"]["signatures"][0].update(sig="A" * 4096),
    "a signature that is a list": lambda it: it["dsseEnvelope"]["signatures"].__setitem__(0, []),
}  # fmt: skip


@pytest.mark.parametrize("attack", REFUSED)
def test_a_malformed_bundle_is_refused(attack: str) -> None:
    document = bundle()
    REFUSED[attack](document)
    with pytest.raises(InvalidInputError):
        read(document)


def test_an_envelope_with_too_many_signatures_is_refused() -> None:
    envelope = bundle()["dsseEnvelope"]
    envelope["signatures"] *= MAX_SIGNATURES + 1
    with pytest.raises(InvalidInputError, match="more than"):
        read(envelope)


def test_a_document_that_two_readers_would_read_differently_is_refused() -> None:
    data = signed("alice", claim_of())
    doubled = data.replace(b'"payloadType":', b'"payloadType":"text/plain","payloadType":', 1)
    for other in (
        doubled,
        b"\xef\xbb\xbf" + data,
        data + data,
        data[:-1],
        data.decode().encode("utf-16"),
    ):
        with pytest.raises(InvalidInputError):
            SignedDocument.decode(other)


def test_a_huge_document_is_refused_unread() -> None:
    with pytest.raises(InvalidInputError, match="more than"):
        SignedDocument.decode(b"[" * (MAX_DOCUMENT_BYTES + 1))


def test_a_document_that_is_cut_anywhere_is_refused() -> None:
    data = signed("alice", claim_of())
    for end in range(0, len(data), 37):
        with pytest.raises(InvalidInputError):
            SignedDocument.decode(data[:end])


def test_a_document_with_any_byte_of_its_signature_changed_is_signed_by_nobody() -> None:
    envelope = SignedDocument.decode(signed("alice", claim_of())).envelope
    sig = envelope.signatures[0].sig
    for at in range(len(sig)):
        changed = bytes([*sig[:at], sig[at] ^ 1, *sig[at + 1 :]])
        forged = Envelope(envelope.payload_type, envelope.payload, (Signature(changed),))
        assert not SignedDocument.decode(forged.encode()).is_signed_by(ALICE.public)
