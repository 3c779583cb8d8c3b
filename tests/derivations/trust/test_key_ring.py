"""The keys of a user: private ones that nobody else reads, and no name that leads elsewhere."""

import base64
import os
import stat
import subprocess
from itertools import product
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from dis_derivations.trust.key_ring import KeyRing
from dis_derivations.trust.private_key import PrivateKey
from dis_store.errors import (
    DisError,
    InvalidInputError,
    UnfitEnvironmentError,
    UnknownReferenceError,
)
from signers import signer

ALICE = signer("alice")


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    return KeyRing(tmp_path / "config" / "keys")


def added(ring: KeyRing, name: str = "alice", passphrase: bytes | None = None) -> Path:
    ring.add(name, ALICE.public, ALICE.to_pem(passphrase))
    return ring.directory / f"{name}.key"


def test_a_private_key_is_for_its_owner_alone(ring: KeyRing) -> None:
    before = os.umask(0)
    try:
        path = added(ring)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(ring.directory.stat().st_mode) & 0o077 == 0
    assert sorted(each.name for each in ring.directory.iterdir()) == ["alice.key", "alice.pub"]


def test_a_key_is_found_as_it_was_added(ring: KeyRing) -> None:
    added(ring)
    found = ring.get("alice")
    assert found.public == ALICE.public
    assert found.can_sign
    assert ring.names() == ["alice"]
    assert ring.private("alice", lambda: None).public == ALICE.public


def test_a_public_key_alone_cannot_sign(ring: KeyRing) -> None:
    ring.add("alice", ALICE.public)
    assert not ring.get("alice").can_sign
    with pytest.raises(InvalidInputError, match="only its public half"):
        ring.private("alice", lambda: None)


def test_openssl_reads_the_private_key_with_its_passphrase_and_not_without(ring: KeyRing) -> None:
    path = added(ring, passphrase=b"secret words")
    command: list[str | Path] = ["openssl", "pkey", "-in", path, "-noout", "-passin"]
    assert subprocess.run([*command, "pass:secret words"], check=False).returncode == 0
    wrong = subprocess.run([*command, "pass:other"], check=False, capture_output=True)
    assert wrong.returncode != 0


def test_a_key_with_a_passphrase_asks_for_it(ring: KeyRing) -> None:
    added(ring, passphrase=b"secret words")
    assert ring.private("alice", lambda: b"secret words").public == ALICE.public
    with pytest.raises(InvalidInputError, match="the passphrase is wrong"):
        ring.private("alice", lambda: b"other words")
    with pytest.raises(InvalidInputError, match="none was given"):
        ring.private("alice", lambda: None)


def test_a_private_key_that_others_may_read_is_not_used(ring: KeyRing) -> None:
    path = added(ring)
    for mode in (0o640, 0o604, 0o666):
        path.chmod(mode)
        with pytest.raises(UnfitEnvironmentError, match="others may read it"):
            ring.private("alice", lambda: None)
    path.chmod(0o600)
    assert ring.private("alice", lambda: None).public == ALICE.public


def test_a_directory_that_others_may_write_is_not_used(ring: KeyRing) -> None:
    added(ring)
    ring.directory.chmod(0o777)
    for call in (ring.names, lambda: ring.get("alice"), lambda: ring.remove("alice")):
        with pytest.raises(UnfitEnvironmentError, match="others may write"):
            call()


def test_a_key_is_never_overwritten(ring: KeyRing) -> None:
    path = added(ring)
    before = path.read_bytes()
    with pytest.raises(InvalidInputError, match="already"):
        ring.add("alice", signer("bob").public)
    with pytest.raises(InvalidInputError, match="already"):
        ring.add("alice", signer("bob").public, signer("bob").to_pem(None))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", ".hidden", "-x", "a\n", "a\x00", "x" * 65, "ä", "a b"]
)
def test_a_name_that_is_no_name_of_a_file_is_refused(ring: KeyRing, name: str) -> None:
    with pytest.raises(InvalidInputError):
        ring.add(name, ALICE.public, ALICE.to_pem(None))
    with pytest.raises(InvalidInputError):
        ring.get(name)
    assert not ring.directory.exists()


def test_a_link_in_the_place_of_a_key_is_not_followed(ring: KeyRing, tmp_path: Path) -> None:
    path = added(ring)
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    with pytest.raises(InvalidInputError):
        ring.private("alice", lambda: None)


def test_a_directory_that_leads_elsewhere_is_not_used(ring: KeyRing, tmp_path: Path) -> None:
    added(ring)
    other = KeyRing(tmp_path / "link")
    other.directory.symlink_to(ring.directory)
    with pytest.raises(UnfitEnvironmentError):
        other.names()
    with pytest.raises(DisError):
        other.add("bob", signer("bob").public)


def test_halves_of_different_keys_are_not_used(ring: KeyRing) -> None:
    added(ring)
    (ring.directory / "alice.pub").write_bytes(signer("bob").public.to_pem())
    with pytest.raises(InvalidInputError, match="no pair"):
        ring.private("alice", lambda: None)


def test_a_removed_key_is_gone(ring: KeyRing) -> None:
    path = added(ring)
    ring.remove("alice")
    assert not path.exists()
    assert ring.names() == []
    for call in (ring.get, ring.remove):
        with pytest.raises(UnknownReferenceError):
            call("alice")


def test_the_only_key_that_can_sign_is_the_one_to_sign_with(ring: KeyRing) -> None:
    with pytest.raises(InvalidInputError, match="no key was named"):
        ring.signer(None)
    added(ring)
    ring.add("bob", signer("bob").public)
    assert ring.signer(None) == "alice"
    added(ring, "second")
    with pytest.raises(InvalidInputError, match="2 keys can sign"):
        ring.signer(None)
    assert ring.signer("second") == "second"


def test_no_message_tells_anything_of_a_private_key(ring: KeyRing) -> None:
    path = added(ring)
    secret = path.read_bytes().splitlines()[1].decode()
    path.write_bytes(path.read_bytes().replace(b"-----END", b"x-----END"))
    with pytest.raises(InvalidInputError) as caught:
        ring.private("alice", lambda: None)
    told = repr(caught.value.__dict__) + repr(caught.value.__context__)
    assert secret[:20] not in told


def test_a_key_that_only_verifies_does_not_sign() -> None:
    text = subprocess.run(
        ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
        check=True,
        capture_output=True,
    ).stdout
    with pytest.raises(InvalidInputError, match="only Ed25519"):
        PrivateKey.from_pem(text, name="it")


def test_a_private_key_with_any_byte_changed_is_refused_or_read() -> None:
    # Two of these make a key of another kind that is too short for it, which cryptography calls an internal error.
    der = signer("alice").loaded.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    refused = 0
    for place, byte in product(range(len(der)), range(256)):
        changed = base64.b64encode(der[:place] + bytes([byte]) + der[place + 1 :]).decode()
        try:
            PrivateKey.from_pem(
                f"-----BEGIN PRIVATE KEY-----\n{changed}\n-----END PRIVATE KEY-----\n".encode(),
                name="it",
            )
        except InvalidInputError:
            refused += 1
    assert refused > 0
