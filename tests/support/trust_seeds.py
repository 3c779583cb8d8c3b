"""Good documents for the readers of signatures that are tried, and whom they are tried with."""

import json
from pathlib import Path

from dis_derivations.trust import statement
from dis_derivations.trust.attestation_policy import AttestationPolicy, Identity
from dis_derivations.trust.signed_document import SignedDocument
from dis_derivations.trust.statement import PAYLOAD_TYPE, Subject
from dis_store.digest import Sha256
from signers import NOW, claim_of, signed, signer, trusted
from sigstore_authority import ISSUER, SUBJECT, Authority

__all__ = ["NOW"]

SAID = claim_of()
KEY = trusted("alice")
CLAIM = SAID.encode()
BUNDLE = signed("alice", SAID)
ENVELOPE = SignedDocument.decode(BUNDLE).envelope.encode()
PUBLIC = signer("alice").public.to_pem()
PRIVATE = signer("alice").to_pem(None)

IMAGE = Sha256.of(b"the manifest of an image")
_PAYLOAD = statement.encode(
    [Subject("image", {"sha256": IMAGE.hex})], "https://slsa.dev/provenance/v1", {}
)
_AUTHORITY = Authority()
_PLACE = Path("/root.json")
ROOT = _AUTHORITY.trusted_root()
ATTESTATION = signer("alice").sign(_PAYLOAD, PAYLOAD_TYPE)
CERTIFIED = json.dumps(_AUTHORITY.bundle(_PAYLOAD)).encode()
IMAGES = AttestationPolicy(
    NOW,
    "require",
    (trusted("alice", roles=frozenset({"images"})),),
    (Identity("ci", ISSUER, SUBJECT, _PLACE),),
    roots={_PLACE: ROOT},
)

KEYS = json.dumps(
    {
        "farm": {
            "key": signer("alice").public.to_base64(),
            "roles": ["builds", "images"],
            "platforms": [{"class": "cuda"}],
            "expires": "2027-01-01",
        }
    }
).encode()
REVOKED = json.dumps([str(signer("bob").public.fingerprint)]).encode()
IDENTITIES = json.dumps({"ci": {"issuer": ISSUER, "subject": SUBJECT, "root": "x.json"}}).encode()
