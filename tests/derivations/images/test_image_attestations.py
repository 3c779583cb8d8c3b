"""Attestations of images: found where others put them, judged by the policy, never believed for being there."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.images.attestations import (
    check_image,
    check_pinned_image,
    fetch_attestations,
)
from dis_derivations.lock.resolution import resolve_lock
from dis_derivations.manifest.loading import load_manifest
from dis_derivations.realisation.events import Event, Reporter
from dis_derivations.registry.client import RegistryClient
from dis_derivations.trust.attestation_policy import AttestationPolicy
from dis_derivations.trust.errors import UntrustedError
from dis_store import Store
from dis_store.digest import Sha256
from dis_store.errors import UnfitEnvironmentError
from images import sha256
from published_images import FIELD, QUICKSTART, Published, attestation
from real_registry import RealRegistry, running_registry
from signers import NOW, trusted

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


@pytest.fixture
def published(
    request: pytest.FixtureRequest, tmp_path: Path, registry: RealRegistry, client: RegistryClient
) -> Published:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:80].strip("-")
    return Published(client, f"{registry.host}/{name}:v1", tmp_path)


def checked(
    published: Published, path: Path, policy: AttestationPolicy = POLICY, **changes: Any
) -> list[str]:
    loaded, lock = published.locked(path)
    events: list[Event] = []
    sources = replace(lock, **changes).sources

    def check(image: str | None, pinned: Mapping[str, str], reporter: Reporter) -> None:
        check_image(published.client, image, pinned, policy, reporter)

    check_pinned_image(check, loaded, sources, events.append)
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
    name = away.manifest.runtime.execution.vllm_image
    with (
        RegistryClient({"HOME": str(tmp_path)}, Conduct(attempts=1)) as client,
        pytest.raises(UnfitEnvironmentError, match="nobody can be asked"),
    ):
        check_image(client, name, lock.sources["runtime.image"], POLICY, lambda _: None)
    assert loaded.manifest_id != away.manifest_id


def test_a_manifest_without_an_image_needs_nobody(client: RegistryClient, tmp_path: Path) -> None:
    loaded = load_manifest(QUICKSTART)
    with Store.open(tmp_path / "store") as store:
        lock = resolve_lock(loaded, store, previous=None)
    asked: list[object] = []
    check_pinned_image(lambda *each: asked.append(each), loaded, lock.sources, lambda _: None)
    assert asked == []


def test_an_image_whose_registry_is_not_known_is_refused_or_told_of(client: RegistryClient) -> None:
    pinned = {"manifest": sha256(b"m"), "digest": sha256(b"m")}
    with pytest.raises(UntrustedError, match="not known which registry"):
        check_image(client, None, pinned, POLICY, lambda _: None)
    events: list[Event] = []
    check_image(client, None, pinned, replace(POLICY, mode="warn"), events.append)
    assert "not known which registry" in events[0].text
