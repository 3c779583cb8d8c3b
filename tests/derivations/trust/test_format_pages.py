"""docs/internals/formats/claim.md and provenance.md: their worked examples are what the code computes."""

import base64
import json
import re
from pathlib import Path

from dis_derivations.trust.claim import PREDICATE_TYPE, Claim, ClaimedOutput
from dis_derivations.trust.envelope import MAX_SIGNATURES, pre_authentication_encoding
from dis_derivations.trust.policy import MAX_ENVELOPES
from dis_derivations.trust.provenance import BUILD_TYPE, BUILDER_ID, encode_provenance
from dis_derivations.trust.signed_document import MAX_DOCUMENT_BYTES, SignedDocument
from dis_derivations.trust.statement import MAX_PAYLOAD_BYTES, PAYLOAD_TYPE
from dis_store import Realisation
from dis_store.digest import Sha256
from dis_store.tree import Tree
from signers import SEEDS, signer

FORMATS = Path(__file__).parents[3] / "docs/internals/formats"
CLAIM, PROVENANCE, STORE = (
    (FORMATS / f"{name}.md").read_text("utf-8") for name in ("claim", "provenance", "store")
)
BLOCKS = re.compile(r"```json\n(.*?)\n```", re.DOTALL)
TREES = [each.encode() for each in BLOCKS.findall(STORE) if '"type":"tree"' in each]
RECORD = Realisation.decode(
    next(each.encode() for each in BLOCKS.findall(STORE) if '"type":"realisation"' in each)
)


def claim() -> Claim:
    outputs = {
        name: ClaimedOutput(
            digest, Sha256.of(next(tree for tree in TREES if digest == _digest(tree)))
        )
        for name, digest in RECORD.outputs.items()
    }
    return Claim(RECORD.key, None, RECORD.builder, RECORD.platform, outputs, RECORD.compared)


def _digest(tree: bytes) -> str:
    return str(Tree.decode(tree).digest)


def test_the_claim_and_its_bundle_are_what_is_computed() -> None:
    payload, bundle = BLOCKS.findall(CLAIM)
    assert claim().encode() == payload.encode()
    assert signer("alice").sign(payload.encode(), PAYLOAD_TYPE) == bundle.encode()
    assert f"`{SEEDS['alice']}`" in CLAIM
    assert signer("alice").public.to_pem().decode().strip() in CLAIM
    assert f"`{signer('alice').public.fingerprint}`" in CLAIM
    start = re.findall(r"begins with `(.*?)`", CLAIM)[0].encode()
    assert pre_authentication_encoding(PAYLOAD_TYPE, payload.encode()).startswith(start)


def test_the_bundle_of_the_example_holds_the_claim_of_the_example() -> None:
    payload, bundle = BLOCKS.findall(CLAIM)
    document = json.loads(bundle)
    assert base64.b64decode(document["dsseEnvelope"]["payload"]) == payload.encode()
    assert SignedDocument.decode(bundle.encode()).is_signed_by(signer("alice").public)


def test_the_provenance_is_what_is_computed() -> None:
    (payload,) = BLOCKS.findall(PROVENANCE)
    sources = {
        name: Sha256.of(next(tree for tree in TREES if each.object == _digest(tree)))
        for name, each in RECORD.inputs.items()
    }
    assert encode_provenance(claim(), RECORD, None, sources, "0.1.0") == payload.encode()


def test_names_and_limits_on_the_pages_are_those_of_the_code() -> None:
    assert PREDICATE_TYPE in CLAIM
    assert BUILD_TYPE in PROVENANCE
    assert f"{BUILDER_ID}/" in PROVENANCE
    assert f"DSSEv1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE} LENGTH PAYLOAD" in CLAIM
    assert f"up to {MAX_SIGNATURES} signatures" in CLAIM
    limits = f"at most {MAX_PAYLOAD_BYTES >> 20} MiB, a document {MAX_DOCUMENT_BYTES >> 20} MiB"
    assert limits in CLAIM
    assert f"at most {MAX_ENVELOPES} documents" in CLAIM
