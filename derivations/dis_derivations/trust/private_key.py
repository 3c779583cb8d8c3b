"""A private key that signs: Ed25519, read from and written as PKCS #8 in PEM, with a passphrase where there is one."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dis_derivations.trust.envelope import Envelope, Signature, pre_authentication_encoding
from dis_derivations.trust.public_key import MAX_PEM_BYTES, PublicKey
from dis_derivations.trust.signed_document import encode_bundle
from dis_store.errors import InvalidInputError

AskPassphrase = Callable[[], bytes | None]
"""Asks for the passphrase of a key; None where nobody can be asked."""


@dataclass(frozen=True, repr=False)
class PrivateKey:
    """A private key. It has no `repr`, so that none is ever printed by chance.

    Attributes:
        loaded: As cryptography holds it.
    """

    loaded: Any

    @classmethod
    def generate(cls) -> "PrivateKey":
        """Make a new key out of the system's random numbers."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> "PrivateKey":
        """Return the key of a seed of 32 bytes (RFC 8032, section 5.1.5)."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def from_pem(cls, text: bytes, *, name: str, ask: AskPassphrase = lambda: None) -> "PrivateKey":
        """Read a private key.

        Args:
            text: PKCS #8 in PEM.
            name: What messages call the key; nothing of its content is in any.
            ask: Asked for the passphrase, if there is one.

        Raises:
            InvalidInputError: It is no Ed25519 key, or its passphrase is another one.
        """
        from cryptography.exceptions import InternalError, UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        if len(text) > MAX_PEM_BYTES:
            raise InvalidInputError(f"{name} is refused", cause="it is too large for a key")
        passphrase = None
        if is_encrypted(text):
            passphrase = ask()
            if not passphrase:
                raise InvalidInputError(
                    f"{name} cannot be used",
                    cause="it has a passphrase, and none was given",
                    hint="run it in a terminal, or give --passphrase-file FILE",
                )
        # What cryptography says may hold parts of the key, so nothing of it is told. It calls an internal error what
        # OpenSSL says of a key that is too short for its kind.
        try:
            loaded = load_pem_private_key(text, passphrase)
        except (ValueError, TypeError, UnsupportedAlgorithm, InternalError):
            cause = "the passphrase is wrong" if passphrase else "it is no private key in PEM"
            raise InvalidInputError(f"{name} cannot be read", cause=cause) from None
        if not isinstance(loaded, Ed25519PrivateKey):
            raise InvalidInputError(
                f"{name} cannot sign", cause="only Ed25519 keys sign here; others only verify"
            )
        return cls(loaded)

    def to_pem(self, passphrase: bytes | None) -> bytes:
        """Return the key as PKCS #8 in PEM, encrypted if there is a passphrase."""
        from cryptography.hazmat.primitives.serialization import (
            BestAvailableEncryption,
            Encoding,
            KeySerializationEncryption,
            NoEncryption,
            PrivateFormat,
        )

        encryption: KeySerializationEncryption = (
            BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
        )
        encoded: bytes = self.loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        return encoded

    @cached_property
    def public(self) -> PublicKey:
        """The public key."""
        return PublicKey.from_loaded(self.loaded.public_key(), name="the key")

    def sign(self, payload: bytes, payload_type: str) -> bytes:
        """Return a Sigstore bundle with a payload and one signature. Ed25519 gives the same bytes every time."""
        signed = pre_authentication_encoding(payload_type, payload)
        signature = Signature(self.loaded.sign(signed), self.public.hint)
        return encode_bundle(Envelope(payload_type, payload, (signature,)), self.public.hint)


def is_encrypted(text: bytes) -> bool:
    """Tell whether a private key in PEM has a passphrase."""
    return b"-----BEGIN ENCRYPTED PRIVATE KEY-----" in text


def is_private(text: bytes) -> bool:
    """Tell whether a PEM file holds a private key."""
    return b"PRIVATE KEY-----" in text
