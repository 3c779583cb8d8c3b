"""Entries of a transparency log (Rekor): that a log of the trusted root holds the very signature, and since when.

Checked offline: the promise of the log over the entry and its time, the proof that the entry is in the tree, the log's
signature over the head of that tree, and that the entry is about this signature, this payload and this certificate.
"""

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from dis_derivations.trust.errors import unbelieved
from dis_derivations.trust.signed_document import SignedDocument
from dis_derivations.trust.strict_base64 import decode_base64
from dis_derivations.trust.trusted_root import Log, TrustedRoot
from dis_store import canonical_json, strict_json
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError

_MAX_BODY_BYTES = 1 << 22
_MAX_HASHES = 64
_HASH_BYTES = 32
_HINT_BYTES = 4
_NAME = "the entry of the log"


def time_of_signature(document: SignedDocument, root: TrustedRoot) -> datetime:
    """Return when a log of the trusted root took in the signature of a bundle, after the entry was checked.

    Raises:
        UntrustedError: There is no entry, something about it does not hold, or it is of a kind that is not checked.
    """
    if len(document.log_entries) != 1:
        raise unbelieved("it must have exactly one entry of a transparency log")
    try:
        return _checked(document.log_entries[0], document, root)
    except (KeyError, TypeError, ValueError, AttributeError, InvalidInputError) as error:
        raise unbelieved(f"its entry of a log is malformed: {error}") from error


def _checked(entry: Any, document: SignedDocument, root: TrustedRoot) -> datetime:
    log_id = decode_base64(entry["logId"]["keyId"], name=_NAME, limit=_HASH_BYTES)
    log = root.transparency_logs.get(Sha256(f"sha256:{log_id.hex()}"))
    if log is None:
        raise unbelieved("its log is not one of the trusted root")
    if "inclusionPromise" not in entry or "integratedTime" not in entry:
        raise unbelieved(
            "its log promised no time; timestamps of other authorities are not checked here"
        )
    body = decode_base64(entry["canonicalizedBody"], name=_NAME, limit=_MAX_BODY_BYTES)
    time = datetime.fromtimestamp(_number(entry["integratedTime"]), UTC)
    if time not in log.period:
        raise unbelieved("its log was not in use at the time of the entry")
    _check_promise(entry, body, log_id, log)
    _check_inclusion(entry["inclusionProof"], body, log)
    _check_body(strict_json.decode(body, name=_NAME), document)
    return time


def _check_promise(entry: Mapping[str, Any], body: bytes, log_id: bytes, log: Log) -> None:
    promised = canonical_json.encode(
        {
            "body": base64.b64encode(body).decode(),
            "integratedTime": _number(entry["integratedTime"]),
            "logID": log_id.hex(),
            "logIndex": _number(entry["logIndex"]),
        }
    )
    promise = entry["inclusionPromise"]["signedEntryTimestamp"]
    if not log.key.made(decode_base64(promise, name=_NAME, limit=1024), promised):
        raise unbelieved("the promise of its log does not fit the entry")


def _check_inclusion(proof: Mapping[str, Any], body: bytes, log: Log) -> None:
    hashes = [
        decode_base64(each, name=_NAME, limit=_HASH_BYTES) for each in proof.get("hashes", [])
    ]
    if len(hashes) > _MAX_HASHES or any(len(each) != _HASH_BYTES for each in hashes):
        raise unbelieved("the proof that its log holds the entry is malformed")
    size, root_hash = head_of_tree(proof["checkpoint"]["envelope"], log)
    stated = decode_base64(proof["rootHash"], name=_NAME, limit=_HASH_BYTES)
    if (size, root_hash) != (_number(proof["treeSize"]), stated):
        raise unbelieved("the head of the tree that its log signed is another one")
    if (
        root_of_path(sha256(b"\x00" + body).digest(), _number(proof["logIndex"]), size, hashes)
        != root_hash
    ):
        raise unbelieved("the proof that its log holds the entry does not fit")


def root_of_path(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes | None:
    """Return the root that a path of hashes leads to from a leaf (RFC 9162, section 2.1.3.2); None if it cannot be."""
    if not 0 <= index < size:
        return None
    last, at, found = size - 1, index, leaf
    for each in path:
        if last == 0:
            return None
        if at % 2 == 1 or at == last:
            found = sha256(b"\x01" + each + found).digest()
            while at % 2 == 0 and at != 0:
                at, last = at >> 1, last >> 1
        else:
            found = sha256(b"\x01" + found + each).digest()
        at, last = at >> 1, last >> 1
    return found if last == 0 else None


def head_of_tree(checkpoint: str, log: Log) -> tuple[int, bytes]:
    """Return size and root hash of a checkpoint that a log signed: a signed note, as transparency-dev has it.

    Raises:
        UntrustedError: The log did not sign it.
        ValueError: It is malformed.
    """
    text, _, signatures = checkpoint.partition("\n\n")
    lines = text.split("\n")
    if len(lines) < 3:  # noqa: PLR2004 - origin, size, root hash
        raise ValueError("a checkpoint has a name, a size and a hash")
    for line in signatures.split("\n"):
        dash, _, rest = line.partition(" ")
        _, _, encoded = rest.partition(" ")
        if dash != "\u2014":
            continue
        try:
            raw = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            continue
        if log.key.made(raw[_HINT_BYTES:], f"{text}\n".encode()):
            return _number(lines[1]), decode_base64(lines[2], name=_NAME, limit=_HASH_BYTES)
    raise unbelieved("its log did not sign the head of the tree")


def _check_body(body: Mapping[str, Any], document: SignedDocument) -> None:
    """Check that an entry is about this document: `dsse` 0.0.1 or `intoto` 0.0.2."""
    kind, spec = (body["kind"], body["apiVersion"]), body["spec"]
    if kind == ("dsse", "0.0.1"):
        payload_hash = spec["payloadHash"]
        (signature,) = spec["signatures"]
        sig, verifier = signature["signature"], signature["verifier"]
    elif kind == ("intoto", "0.0.2"):
        payload_hash = spec["content"]["payloadHash"]
        (signature,) = spec["content"]["envelope"]["signatures"]
        sig = decode_base64(signature["sig"], name=_NAME, limit=4096).decode("ascii")
        verifier = signature["publicKey"]
    else:
        raise unbelieved(
            f"its entry is of the kind {kind[0]!r} {kind[1]!r}, which is not checked here"
        )
    if (payload_hash["algorithm"], payload_hash["value"]) != (
        "sha256",
        sha256(document.envelope.payload).hexdigest(),
    ):
        raise unbelieved("its entry is about another payload")
    if sig != base64.b64encode(document.envelope.signatures[0].sig).decode():
        raise unbelieved("its entry is about another signature")
    if _certificate(verifier) != document.certificates[0]:
        raise unbelieved("its entry is about another certificate")


def _certificate(encoded: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import load_pem_x509_certificate

    pem = decode_base64(encoded, name=_NAME, limit=1 << 16)
    return load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


def _number(value: Any) -> int:
    """Return a number that JSON of protobuf writes as a string."""
    if not isinstance(value, str) or not value.isascii() or not value.isdigit() or len(value) > 16:  # noqa: PLR2004
        raise ValueError("a number is none")
    return int(value)
