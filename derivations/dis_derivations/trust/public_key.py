"""A public key: read from PEM, named by its fingerprint, asked whether it made a signature.

cryptography is imported where it is needed, since most calls of dis need none of it.
"""

import base64
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from dis_derivations.trust.strict_base64 import decode_base64
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

Algorithm = Literal["ed25519", "ecdsa-p256", "rsa"]
MAX_PEM_BYTES = 1 << 14
_LABEL = b"PUBLIC KEY"
_PEM = re.compile(
    rb"\s*-----BEGIN ([A-Z0-9 ]+)-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END ([A-Z0-9 ]+)-----\s*"
)
_RSA_BITS = range(2048, 8192 + 1)
_RSA_EXPONENT = 65537


@dataclass(frozen=True)
class PublicKey:
    """A public key.

    Attributes:
        der: Its SubjectPublicKeyInfo (RFC 5280), in DER, as the key itself encodes it.
        algorithm: What it verifies, and nothing else: `ed25519` (RFC 8032), `ecdsa-p256` (with SHA-256, signatures in
            DER), `rsa` (PKCS #1 v1.5 with SHA-256, 2048 to 8192 bits). It comes from the key, never from a message.
    """

    der: bytes
    algorithm: Algorithm

    @classmethod
    def from_der(cls, der: bytes, *, name: str = "the public key") -> "PublicKey":
        """Read a SubjectPublicKeyInfo.

        Raises:
            InvalidInputError: It is none, not in DER, or of a kind that is not used here.
        """
        from cryptography.exceptions import InternalError, UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_der_public_key

        if len(der) > MAX_PEM_BYTES:
            raise InvalidInputError(f"{name} is refused", cause="it is too large for a key")
        try:
            loaded = load_der_public_key(der)
        except (ValueError, TypeError, UnsupportedAlgorithm, InternalError) as error:
            raise InvalidInputError(
                f"{name} cannot be read", cause="it is no SubjectPublicKeyInfo that is known"
            ) from error
        return cls.from_loaded(loaded, name=name, der=der)

    @classmethod
    def from_loaded(
        cls, loaded: "PublicKeyTypes", *, name: str, der: bytes | None = None
    ) -> "PublicKey":
        """Take a key that cryptography has read.

        Args:
            loaded: The key.
            name: What messages call it.
            der: What it was read from, which must be how the key encodes itself: one key, one fingerprint.

        Raises:
            InvalidInputError: It is of a kind that is not used here, or `der` is another encoding of it.
        """
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        algorithm = _algorithm(loaded, name)
        encoded = loaded.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        if der is not None and der != encoded:
            raise InvalidInputError(
                f"{name} is refused", cause="it is not encoded in the one way that DER has"
            )
        return cls(encoded, algorithm)

    @classmethod
    def from_pem(cls, text: bytes, *, name: str = "the public key") -> "PublicKey":
        """Read one PEM block `PUBLIC KEY` with nothing around it.

        Raises:
            InvalidInputError: It is none; a private key is refused without a word of its content.
        """
        if len(text) > MAX_PEM_BYTES:
            raise InvalidInputError(f"{name} is refused", cause="it is too large for a key")
        found = _PEM.fullmatch(text)
        if found is None or found[1] != found[3]:
            raise InvalidInputError(
                f"{name} cannot be read",
                cause="it is not one PEM block, `-----BEGIN PUBLIC KEY-----` …",
            )
        if b"PRIVATE" in found[1]:
            raise InvalidInputError(
                f"{name} is refused",
                cause="it is a private key, which nobody else should have",
                hint="give the public one: openssl pkey -in FILE -pubout",
            )
        if found[1] != _LABEL:
            raise InvalidInputError(
                f"{name} cannot be read",
                cause=f"it is a PEM block {found[1].decode()!r}, not 'PUBLIC KEY'",
            )
        return cls.from_base64(b"".join(found[2].split()).decode(), name=name)

    @classmethod
    def from_base64(cls, text: str, *, name: str = "the public key") -> "PublicKey":
        """Read the base64 of a SubjectPublicKeyInfo: what a PEM block holds, in one line.

        Raises:
            InvalidInputError: It is none.
        """
        der = decode_base64(text, name=name, limit=MAX_PEM_BYTES)
        return cls.from_der(der, name=name)

    def to_base64(self) -> str:
        """Return the base64 of the key, in one line: what settings hold."""
        return base64.b64encode(self.der).decode()

    def to_pem(self) -> bytes:
        """Return the PEM block (RFC 7468)."""
        text = self.to_base64()
        lines = [text[start : start + 64] for start in range(0, len(text), 64)]
        return "\n".join(
            ["-----BEGIN PUBLIC KEY-----", *lines, "-----END PUBLIC KEY-----", ""]
        ).encode()

    @cached_property
    def fingerprint(self) -> Sha256:
        """The SHA-256 of the DER: `openssl pkey -pubin -in FILE -outform DER | sha256sum`."""
        return Sha256.of(self.der)

    @property
    def hint(self) -> str:
        """The base64 of the fingerprint's 32 bytes, which a Sigstore bundle names a key by."""
        return base64.b64encode(bytes.fromhex(self.fingerprint.hex)).decode()

    def made(self, signature: bytes, data: bytes) -> bool:
        """Tell whether the key made a signature over `data`."""
        from cryptography.exceptions import InvalidSignature

        try:
            _verify(self._loaded, signature, data)
        except InvalidSignature:
            return False
        return True

    @cached_property
    def _loaded(self) -> Any:
        from cryptography.hazmat.primitives.serialization import load_der_public_key

        return load_der_public_key(self.der)


def _algorithm(loaded: "PublicKeyTypes", name: str) -> Algorithm:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(loaded, ed25519.Ed25519PublicKey):
        return "ed25519"
    if isinstance(loaded, ec.EllipticCurvePublicKey) and isinstance(loaded.curve, ec.SECP256R1):
        return "ecdsa-p256"
    if isinstance(loaded, rsa.RSAPublicKey):
        if loaded.key_size in _RSA_BITS and loaded.public_numbers().e == _RSA_EXPONENT:
            return "rsa"
        raise InvalidInputError(
            f"{name} is refused",
            cause=f"an RSA key must have 2048 to 8192 bits and the exponent {_RSA_EXPONENT}",
        )
    raise InvalidInputError(
        f"{name} is of a kind that is not used here",
        cause="a key is Ed25519, ECDSA on P-256, or RSA",
    )


def _verify(loaded: Any, signature: bytes, data: bytes) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding
    from cryptography.hazmat.primitives.hashes import SHA256

    if isinstance(loaded, ed25519.Ed25519PublicKey):
        loaded.verify(signature, data)
    elif isinstance(loaded, ec.EllipticCurvePublicKey):
        loaded.verify(signature, data, ec.ECDSA(SHA256()))
    else:
        loaded.verify(signature, data, padding.PKCS1v15(), SHA256())
