"""A Sigstore of our own for tests: an authority, a log of certificates, a transparency log, and bundles made with them.

It is written after the RFCs and the formats, and shares no code with what verifies: every part can be spoilt.
"""

import base64
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import Any

import rfc8785
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

TIME = datetime(2026, 6, 1, 12, 0, 30, tzinfo=UTC)
SUBJECT = "https://github.com/example/image/.github/workflows/build.yml@refs/heads/main"
ISSUER = "https://token.actions.githubusercontent.com"
_SHA256 = ec.ECDSA(hashes.SHA256())
_ISSUER_OID = ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_SCT_OID = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")


def b64(data: bytes) -> str:
    """Return standard base64."""
    return base64.b64encode(data).decode()


def spki(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the public key in DER."""
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def name_of(text: str) -> x509.Name:
    """Return a name with a common name only."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def usage(*, signs: bool = False, issues: bool = False) -> x509.KeyUsage:
    """Return a key usage."""
    return x509.KeyUsage(signs, False, False, False, False, issues, issues, False, False)


Builder = x509.CertificateBuilder
_P256 = ec.SECP256R1()


@dataclass
class Leaf:
    """What the certificate of a signer says; tests change it."""

    subject: x509.GeneralName = field(
        default_factory=lambda: x509.UniformResourceIdentifier(SUBJECT)
    )
    issuer: str = ISSUER
    start: datetime = TIME - timedelta(seconds=30)
    lasts: timedelta = timedelta(minutes=10)
    change: Callable[[Builder], Builder] = lambda builder: builder
    code_signing: bool = True
    logged: bool = True


class Authority:
    """A root, an intermediate, a log of certificates, a transparency log."""

    def __init__(self) -> None:
        keys = [ec.generate_private_key(_P256) for _ in range(4)]
        self.root_key, self.issuing_key, self.ct_key, self.rekor_key = keys
        self.issuing_change: Callable[[Builder], Builder] = lambda builder: builder
        self.issuing_ca = True

    @cached_property
    def root(self) -> x509.Certificate:
        """The certificate that all rests on."""
        return self._authority("root", self.root_key, "root", self.root_key, path_length=1)

    @cached_property
    def issuing(self) -> x509.Certificate:
        """The certificate that issues those of signers."""
        return self._authority("issuing", self.issuing_key, "root", self.root_key, path_length=0)

    def _authority(
        self,
        subject: str,
        key: ec.EllipticCurvePrivateKey,
        issuer: str,
        issuer_key: ec.EllipticCurvePrivateKey,
        *,
        path_length: int,
    ) -> x509.Certificate:
        ca = subject == "root" or self.issuing_ca
        builder = (
            Builder()
            .subject_name(name_of(subject))
            .issuer_name(name_of(issuer))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(TIME - timedelta(days=100))
            .not_valid_after(TIME + timedelta(days=100))
            .add_extension(x509.BasicConstraints(ca, path_length if ca else None), critical=True)
            .add_extension(usage(issues=ca, signs=not ca), critical=True)
        )
        builder = self.issuing_change(builder) if subject == "issuing" else builder
        return builder.sign(issuer_key, hashes.SHA256())

    def leaf(self, key: ec.EllipticCurvePrivateKey, leaf: Leaf) -> x509.Certificate:
        """Issue the certificate of a signer, with the promise of the log of certificates in it."""
        builder = (
            Builder()
            .subject_name(x509.Name([]))
            .issuer_name(self.issuing.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(leaf.start)
            .not_valid_after(leaf.start + leaf.lasts)
            .add_extension(usage(signs=True), critical=True)
            .add_extension(x509.SubjectAlternativeName([leaf.subject]), critical=True)
            .add_extension(
                x509.UnrecognizedExtension(
                    _ISSUER_OID, bytes([0x0C, len(leaf.issuer)]) + leaf.issuer.encode()
                ),
                critical=False,
            )
        )
        kind = (
            ExtendedKeyUsageOID.CODE_SIGNING
            if leaf.code_signing
            else ExtendedKeyUsageOID.SERVER_AUTH
        )
        builder = leaf.change(builder.add_extension(x509.ExtendedKeyUsage([kind]), critical=False))
        if not leaf.logged:
            return builder.sign(self.issuing_key, hashes.SHA256())
        # The precertificate has no promise in it, and that is what the log signs.
        logged = builder.sign(self.issuing_key, hashes.SHA256()).tbs_certificate_bytes
        promise = x509.UnrecognizedExtension(_SCT_OID, self._promise(logged, leaf.start))
        return builder.add_extension(promise, critical=False).sign(
            self.issuing_key, hashes.SHA256()
        )

    def _promise(self, logged: bytes, time: datetime) -> bytes:
        milliseconds = int(time.timestamp() * 1000)
        signed = (
            struct.pack(">BBQH", 0, 0, milliseconds, 1)
            + sha256(spki(self.issuing_key)).digest()
            + len(logged).to_bytes(3, "big")
            + logged
            + b"\x00\x00"
        )
        signature = self.ct_key.sign(signed, _SHA256)
        log_id = sha256(spki(self.ct_key)).digest()
        sct = b"\x00" + log_id + struct.pack(">Q", milliseconds) + b"\x00\x00\x04\x03"
        sct += struct.pack(">H", len(signature)) + signature
        listed = struct.pack(">H", len(sct)) + sct
        listed = struct.pack(">H", len(listed)) + listed
        return _octets(listed)

    def trusted_root(self) -> bytes:
        """Return the trusted root as JSON."""
        valid = {"start": (TIME - timedelta(days=50)).isoformat()}

        def log(key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
            details = "PKIX_ECDSA_P256_SHA_256"
            return {
                "baseUrl": "https://log.example",
                "hashAlgorithm": "SHA2_256",
                "publicKey": {"rawBytes": b64(spki(key)), "keyDetails": details, "validFor": valid},
                "logId": {"keyId": b64(sha256(spki(key)).digest())},
            }

        chain = [b64(each.public_bytes(Encoding.DER)) for each in (self.issuing, self.root)]
        return json.dumps(
            {
                "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                "tlogs": [log(self.rekor_key)],
                "ctlogs": [log(self.ct_key)],
                "certificateAuthorities": [
                    {
                        "subject": {"commonName": "root"},
                        "uri": "https://ca.example",
                        "certChain": {"certificates": [{"rawBytes": each} for each in chain]},
                        "validFor": valid,
                    }
                ],
            }
        ).encode()

    def bundle(
        self,
        payload: bytes,
        leaf: Leaf | None = None,
        *,
        payload_type: str = "application/vnd.in-toto+json",
        time: datetime = TIME,
        neighbours: int = 3,
    ) -> dict[str, Any]:
        """Return a bundle of version 0.3 with everything that a verifier asks for."""
        key = ec.generate_private_key(_P256)
        certificate = self.leaf(key, leaf or Leaf())
        kind = payload_type.encode()
        message = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
        signature = key.sign(message, _SHA256)
        envelope = {
            "payload": b64(payload),
            "payloadType": payload_type,
            "signatures": [{"sig": b64(signature)}],
        }
        body = json.dumps(
            {
                "apiVersion": "0.0.1",
                "kind": "dsse",
                "spec": {
                    "envelopeHash": {
                        "algorithm": "sha256",
                        "value": sha256(json.dumps(envelope).encode()).hexdigest(),
                    },
                    "payloadHash": {"algorithm": "sha256", "value": sha256(payload).hexdigest()},
                    "signatures": [
                        {
                            "signature": b64(signature),
                            "verifier": b64(certificate.public_bytes(Encoding.PEM)),
                        }
                    ],
                },
            }
        ).encode()
        return {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": b64(certificate.public_bytes(Encoding.DER))},
                "tlogEntries": [self.entry(body, time, neighbours)],
            },
            "dsseEnvelope": envelope,
        }

    def entry(self, body: bytes, time: datetime = TIME, neighbours: int = 3) -> dict[str, Any]:
        """Return the entry of the transparency log for a body, with its promise and its proof."""
        seconds = int(time.timestamp())
        log_id = sha256(spki(self.rekor_key)).digest()
        promise = rfc8785.dumps(
            {"body": b64(body), "integratedTime": seconds, "logID": log_id.hex(), "logIndex": 42}
        )
        leaves = [b"leaf %d" % number for number in range(neighbours)]
        at = len(leaves) // 2
        leaves.insert(at, body)
        root, path = merkle(leaves, at)
        text = f"log.example - 1\n{len(leaves)}\n{b64(root)}\n"
        note = b64(log_id[:4] + self.rekor_key.sign(text.encode(), _SHA256))
        return {
            "logIndex": "42",
            "logId": {"keyId": b64(log_id)},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(seconds),
            "inclusionPromise": {
                "signedEntryTimestamp": b64(self.rekor_key.sign(promise, _SHA256))
            },
            "inclusionProof": {
                "logIndex": str(at),
                "rootHash": b64(root),
                "treeSize": str(len(leaves)),
                "hashes": [b64(each) for each in path],
                "checkpoint": {"envelope": f"{text}\n\u2014 log.example {note}\n"},
            },
            "canonicalizedBody": b64(body),
        }


def merkle(leaves: list[bytes], at: int) -> tuple[bytes, list[bytes]]:
    """Return the root of a tree and the path to one leaf: RFC 6962, sections 2.1 and 2.1.1, by their recursion."""
    if len(leaves) == 1:
        return sha256(b"\x00" + leaves[0]).digest(), []
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    left, left_path = merkle(leaves[:split], min(at, split - 1))
    right, right_path = merkle(leaves[split:], max(at - split, 0))
    root = sha256(b"\x01" + left + right).digest()
    return root, [*left_path, right] if at < split else [*right_path, left]


def _octets(content: bytes) -> bytes:
    """Return a DER OCTET STRING."""
    length = len(content)
    head = bytes([length]) if length < 0x80 else b"\x82" + struct.pack(">H", length)
    if 0x80 <= length < 0x100:
        head = bytes([0x81, length])
    return b"\x04" + head + content
