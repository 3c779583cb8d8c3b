"""Images in a registry, and what is said of them there."""

import json
from pathlib import Path
from typing import Any

from command_line import ROOT
from dis_derivations.lock.document import Lock
from dis_derivations.lock.resolution import resolve_lock
from dis_derivations.manifest.loading import LoadedManifest, load_manifest
from dis_derivations.registry.client import RegistryClient
from dis_derivations.registry.reference import RegistryReference, parse_image_reference
from dis_derivations.trust import statement
from dis_derivations.trust.statement import PAYLOAD_TYPE, Subject
from dis_store import Store
from dis_store.digest import Sha256
from images import MANIFEST, LayoutMaker, platform, sha256, tar_of
from signers import signer

QUICKSTART = ROOT / "configs/quickstart.json"
FIELD = "runtime.execution.vllm_image"
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"


class Published:
    """An image in a registry, and what is said of it there."""

    def __init__(self, client: RegistryClient, name: str, path: Path) -> None:
        self.client = client
        self.layout = LayoutMaker(path / "layout")
        self.image = self.layout.image([tar_of({"a": name.encode()})], platform=platform("amd64"))
        self.layout.finish(self.image)
        self.reference = parse_image_reference(name)
        self.push(self.image)

    def push(self, descriptor: dict[str, Any]) -> None:
        data = self.layout.path(descriptor["digest"]).read_bytes()
        document = json.loads(data)
        for blob in (document["config"], *document["layers"]):
            self.client.push_bytes(self.reference, self.layout.path(blob["digest"]).read_bytes())
        self.client.push_manifest(self.reference, data, descriptor["mediaType"])

    def say(
        self,
        document: bytes,
        *,
        about: dict[str, Any] | None = None,
        kind: str = BUNDLE,
        tag: str | None = None,
    ) -> None:
        """Push a document as a referrer of the image, or under a tag."""
        for data in (document, b"{}"):
            self.client.push_bytes(self.reference, data)
        subject = {key: (about or self.image)[key] for key in ("mediaType", "digest", "size")}
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": kind,
            "config": {
                "mediaType": "application/vnd.oci.empty.v1+json",
                "digest": sha256(b"{}"),
                "size": 2,
            },
            "layers": [{"mediaType": kind, "digest": sha256(document), "size": len(document)}],
            **({} if tag else {"subject": subject}),
        }
        data = json.dumps(manifest).encode()
        where = self.reference.with_tag(tag) if tag else self.reference.with_digest(Sha256.of(data))
        self.client.push_manifest(where, data, MANIFEST)

    @property
    def pinned(self) -> RegistryReference:
        return self.reference.with_digest(Sha256(self.image["digest"]))

    def locked(self, path: Path) -> tuple[LoadedManifest, Lock]:
        reference = self.reference
        name = f"{reference.host}/{reference.repository}@{self.image['digest']}"
        loaded = load_manifest(QUICKSTART, [f"{FIELD}={name}"])
        with Store.open(path / "store") as store:
            return loaded, resolve_lock(loaded, store, previous=None)


def attestation(digest: str, name: str = "alice") -> bytes:
    """Return what somebody signed about an image."""
    subject = Subject("image", {"sha256": digest.removeprefix("sha256:")})
    payload = statement.encode([subject], "https://slsa.dev/provenance/v1", {"builder": "ours"})
    return signer(name).sign(payload, PAYLOAD_TYPE)
