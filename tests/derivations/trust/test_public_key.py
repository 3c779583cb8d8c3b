"""Public keys: one key, one encoding, one fingerprint; and a key verifies by its own algorithm only."""

import base64
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, padding, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from dis_derivations.trust.public_key import MAX_PEM_BYTES, PublicKey
from dis_store.errors import InvalidInputError
from signers import signer

ALICE = "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="


def pem_of(private: object) -> bytes:
    public = private.public_key()  # type: ignore[attr-defined]
    encoded: bytes = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return encoded


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def test_the_key_of_the_rfc_has_the_encoding_that_the_rfc_gives_it() -> None:
    key = signer("alice").public
    assert key.to_base64() == ALICE
    assert key.der.endswith(
        bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    )


def test_openssl_reads_what_is_written_and_finds_the_same_fingerprint(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(signer("alice").public.to_pem())
    der = subprocess.run(
        ["openssl", "pkey", "-pubin", "-in", file, "-outform", "DER"],
        check=True,
        capture_output=True,
    ).stdout
    digest = subprocess.run(["sha256sum"], input=der, check=True, capture_output=True).stdout
    key = PublicKey.from_pem(file.read_bytes())
    assert digest.split()[0].decode() == key.fingerprint.hex
    assert base64.b64decode(key.hint).hex() == key.fingerprint.hex


def test_a_key_is_read_back_as_it_was(rsa_key: rsa.RSAPrivateKey) -> None:
    for pem in (
        signer("bob").public.to_pem(),
        pem_of(ec.generate_private_key(ec.SECP256R1())),
        pem_of(rsa_key),
    ):
        key = PublicKey.from_pem(pem)
        assert key.to_pem() == pem
        assert PublicKey.from_base64(key.to_base64()) == key


def test_each_kind_of_key_verifies_what_it_signed_and_nothing_else(
    rsa_key: rsa.RSAPrivateKey,
) -> None:
    curve = ec.generate_private_key(ec.SECP256R1())
    made = {
        "ecdsa-p256": (pem_of(curve), curve.sign(b"text", ec.ECDSA(hashes.SHA256()))),
        "rsa": (pem_of(rsa_key), rsa_key.sign(b"text", padding.PKCS1v15(), hashes.SHA256())),
        "ed25519": (signer("alice").public.to_pem(), signer("alice").loaded.sign(b"text")),
    }
    for kind, (pem, signature) in made.items():
        key = PublicKey.from_pem(pem)
        assert key.algorithm == kind
        assert key.made(signature, b"text")
        assert not key.made(signature, b"texts")
        assert not key.made(signature[:-1], b"text")
        assert not key.made(b"", b"text")
        for other, (_, foreign) in made.items():
            assert key.made(foreign, b"text") == (other == kind)


def test_no_other_padding_or_hash_is_taken_for_that_of_the_key(rsa_key: rsa.RSAPrivateKey) -> None:
    key = PublicKey.from_pem(pem_of(rsa_key))
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), 32)
    assert not key.made(rsa_key.sign(b"text", pss, hashes.SHA256()), b"text")
    assert not key.made(rsa_key.sign(b"text", padding.PKCS1v15(), hashes.SHA512()), b"text")
    curve = ec.generate_private_key(ec.SECP256R1())
    signature = curve.sign(b"text", ec.ECDSA(hashes.SHA512()))
    assert not PublicKey.from_pem(pem_of(curve)).made(signature, b"text")


@pytest.mark.parametrize(
    "kind", ["ed448", "x25519", "p384", "dsa", "short RSA", "small exponent", "private"]
)
def test_keys_of_other_kinds_are_refused(kind: str) -> None:
    if kind == "private":
        pem = signer("alice").to_pem(None)
    else:
        makers: dict[str, Callable[[], Any]] = {
            "ed448": ed448.Ed448PrivateKey.generate,
            "x25519": x25519.X25519PrivateKey.generate,
            "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
            "dsa": lambda: dsa.generate_private_key(2048),
            "short RSA": lambda: rsa.generate_private_key(65537, 1024),  # noqa: S505 - refused
            "small exponent": lambda: rsa.generate_private_key(3, 2048),
        }
        pem = pem_of(makers[kind]())
    with pytest.raises(InvalidInputError) as caught:
        PublicKey.from_pem(pem)
    if kind == "private":
        assert "private key" in str(caught.value)
        assert pem.split(b"\n")[1].decode() not in repr(caught.value.__dict__)


@pytest.mark.parametrize(
    "damage",
    [
        lambda pem: pem[:-10],
        lambda pem: pem + pem,
        lambda pem: b"text\n" + pem,
        lambda pem: pem.replace(b"PUBLIC KEY", b"CERTIFICATE"),
        lambda pem: pem.replace(b"MCow", b"MCox"),
        lambda pem: pem.replace(b"URo=", b"URp="),
        lambda pem: pem.replace(b"END PUBLIC", b"END OTHER"),
        lambda pem: b"x" * (MAX_PEM_BYTES + 1),
        lambda _: b"",
    ],
)
def test_what_is_no_key_in_pem_is_refused(damage: object) -> None:
    pem = damage(signer("alice").public.to_pem())  # type: ignore[operator]
    with pytest.raises(InvalidInputError):
        PublicKey.from_pem(pem)


def test_a_second_encoding_of_a_key_is_refused() -> None:
    der = signer("alice").public.der
    for other in (der + b"\x00", b"\x30\x81" + der[1:], der[:-1]):
        with pytest.raises(InvalidInputError):
            PublicKey.from_der(other)


def test_a_point_in_its_short_form_is_a_second_encoding() -> None:
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    whole = public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    short = public.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    head = der[: -len(whole) - 3]
    other = bytes([0x30, der[1] - 32]) + head[2:] + bytes([3, len(short) + 1, 0]) + short
    assert PublicKey.from_der(der).algorithm == "ecdsa-p256"
    with pytest.raises(InvalidInputError, match="one way"):
        PublicKey.from_der(other)


def test_a_private_key_shows_nothing_of_itself() -> None:
    key = signer("alice")
    seed = key.loaded.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    assert seed.hex() not in repr(key)
    assert str(key) == object.__repr__(key)
