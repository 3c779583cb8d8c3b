"""Attestations of images: found where others put them, judged by the policy, never believed for being there."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from command_line import ROOT
from dis_derivations.images.attestations import check_image, fetch_attestations
from dis_derivations.lock.document import Lock
from dis_derivations.lock.resolution import resolve_lock
from dis_derivations.manifest.loading import LoadedManifest, load_manifest
from dis_derivations.realisation.events import Event
from dis_derivations.registry.client import RegistryClient
from dis_derivations.registry.reference import RegistryReference, parse_image_reference
from dis_derivations.trust import statement
from dis_derivations.trust.attestation_policy import AttestationPolicy
from dis_derivations.trust.errors import UntrustedError
from dis_derivations.trust.statement import PAYLOAD_TYPE, Subject
from dis_store import Store
from dis_store.digest import Sha256
from dis_store.errors import UnfitEnvironmentError
from images import MANIFEST, LayoutMaker, platform, sha256, tar_of
from real_registry import RealRegistry, running_registry
from signers import NOW, signer, trusted

QUICKSTART = ROOT / "configs/quickstart.json"
FIELD = "runtime.execution.vllm_image"
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
ENVELOPE = "application/vnd.dsse.envelope.v1+json"
POLICY = AttestationPolicy(
    now=NOW, mode="require", keys=(trusted("alice", roles=frozenset({"images"})),)
)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RegistryClient]:
    with RegistryClient({"HOME": str(tmp_path)}) as found:
        yield found


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


@pytest.fixture
def published(
    request: pytest.FixtureRequest, tmp_path: Path, registry: RealRegistry, client: RegistryClient
) -> Published:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:80].strip("-")
    return Published(client, f"{registry.host}/{name}:v1", tmp_path)


def attestation(digest: str, name: str = "alice") -> bytes:
    subject = Subject("image", {"sha256": digest.removeprefix("sha256:")})
    payload = statement.encode([subject], "https://slsa.dev/provenance/v1", {"builder": "ours"})
    return signer(name).sign(payload, PAYLOAD_TYPE)


def checked(
    published: Published, path: Path, policy: AttestationPolicy = POLICY, **changes: Any
) -> list[str]:
    loaded, lock = published.locked(path)
    events: list[Event] = []
    check_image(published.client, loaded, replace(lock, **changes), policy, events.append)
    return [event.text for event in events]


def test_a_referrer_that_a_trusted_key_signed_vouches_for_the_image(
    tmp_path: Path, published: Published
) -> None:
    published.say(attestation(published.image["digest"]))
    assert "is vouched for by alice" in checked(published, tmp_path)[0]


def test_an_envelope_under_cosigns_tag_vouches_for_the_image(
    tmp_path: Path, published: Published
) -> None:
    bundle = json.loads(attestation(published.image["digest"]))
    tag = f"sha256-{published.image['digest'].removeprefix('sha256:')}.att"
    envelope = json.dumps(bundle["dsseEnvelope"]).encode()
    published.say(envelope, kind=ENVELOPE, tag=tag)
    assert "vouched for" in checked(published, tmp_path)[0]


def test_an_image_that_nobody_vouches_for_is_refused_or_told_of(
    tmp_path: Path, published: Published
) -> None:
    with pytest.raises(UntrustedError, match="there is no attestation of it"):
        checked(published, tmp_path)
    assert "nobody vouches" in checked(published, tmp_path, replace(POLICY, mode="warn"))[0]
    assert checked(published, tmp_path, replace(POLICY, mode="off")) == []


@pytest.mark.parametrize("lie", ["a stranger", "another image", "no document", "too long"])
def test_what_does_not_vouch_is_not_believed(
    tmp_path: Path, published: Published, lie: str
) -> None:
    digest = published.image["digest"]
    said = {
        "a stranger": attestation(digest, "bob"),
        "another image": attestation(sha256(b"another")),
        "no document": b"[" * 100,
        "too long": attestation(digest) + b" " * (8 << 20),
    }
    published.say(said[lie])
    with pytest.raises(UntrustedError):
        checked(published, tmp_path)


def test_a_good_attestation_among_bad_ones_is_found(tmp_path: Path, published: Published) -> None:
    published.say(b"nothing")
    published.say(attestation(published.image["digest"], "bob"))
    published.say(attestation(published.image["digest"]))
    assert len(fetch_attestations(published.client, published.pinned)) == 3
    assert "alice" in checked(published, tmp_path)[0]


def test_an_index_vouches_only_for_what_is_in_it(tmp_path: Path, published: Published) -> None:
    index = published.layout.index(published.image)
    other = published.layout.index()
    for each in (index, other):
        data = published.layout.path(each["digest"]).read_bytes()
        where = published.reference.with_digest(Sha256(each["digest"]))
        published.client.push_manifest(where, data, each["mediaType"])
        published.say(attestation(each["digest"]), about=each)
    _, lock = published.locked(tmp_path)
    pinned = dict(lock.sources["runtime.image"])

    def sources(root: str) -> dict[str, Any]:
        return {"runtime.image": {**pinned, "digest": root}}

    assert "vouched" in checked(published, tmp_path, sources=sources(index["digest"]))[0]
    with pytest.raises(UntrustedError):
        checked(published, tmp_path, sources=sources(other["digest"]))


def test_a_registry_that_does_not_answer_is_no_reason_to_believe(
    tmp_path: Path, published: Published
) -> None:
    from dis_derivations.transport.conduct import Conduct

    loaded, lock = published.locked(tmp_path)
    away = load_manifest(QUICKSTART, [f"{FIELD}=localhost:9/x@{published.image['digest']}"])
    with (
        RegistryClient({"HOME": str(tmp_path)}, Conduct(attempts=1)) as client,
        pytest.raises(UnfitEnvironmentError, match="nobody can be asked"),
    ):
        check_image(client, away, lock, POLICY, lambda _: None)
    assert loaded.manifest_id != away.manifest_id


def test_a_manifest_without_an_image_needs_nobody(client: RegistryClient, tmp_path: Path) -> None:
    loaded = load_manifest(QUICKSTART)
    with Store.open(tmp_path / "store") as store:
        lock = resolve_lock(loaded, store, previous=None)
    check_image(client, loaded, lock, POLICY, lambda _: None)
