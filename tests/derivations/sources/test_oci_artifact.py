"""Artifacts of a real registry as sources: pushed by oras, by ModelPack's layout, and by nobody who means well."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.lock.checking import check_lock
from dis_derivations.lock.document import Lock
from dis_derivations.lock.location import LockLocation
from dis_derivations.lock.making import make_lock
from dis_derivations.lock.refusals import LockRefusedError
from dis_derivations.manifest.loading import load_manifest
from dis_derivations.manifest.reading import read_manifest_files
from dis_derivations.realisation.manifest_target import plan_target
from dis_derivations.realisation.target import TargetRequest
from dis_derivations.registry.client import RegistryClient
from dis_derivations.registry.documents import (
    EMPTY,
    EMPTY_CONFIG,
    INDEX,
    MANIFEST,
    Descriptor,
    ImageIndex,
    ImageManifest,
)
from dis_derivations.registry.reference import parse_reference
from dis_derivations.sources.oci_artifact import OciArtifact
from dis_derivations.sources.source import WantedFile
from dis_store import Store
from dis_store.digest import Sha256
from dis_store.errors import BuildError, IntegrityError, MismatchError
from real_registry import RealRegistry, running_registry
from run_shelf import make_writable
from tiny_runs import lock_of, realise, write_manifest

TITLE, FILEPATH = "org.opencontainers.image.title", "org.cncf.model.filepath"
WEIGHTS = "application/vnd.cncf.model.weight.v1.raw"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened
    make_writable(tmp_path / "store")


def layer(client: RegistryClient, place: str, data: bytes, kind: str, **notes: str) -> Descriptor:
    digest = client.push_bytes(parse_reference(place), data)
    return Descriptor(kind, digest, len(data), notes)


def push(place: str, files: dict[str, bytes], *, kind: str = WEIGHTS, path: str = FILEPATH) -> str:
    """Push an artifact whose layers are files, and return the digest of its manifest."""
    with contextlib.closing(RegistryClient()) as client:
        layers = [layer(client, place, data, kind, **{path: name}) for name, data in files.items()]
        return push_layers(client, place, layers)


def push_layers(client: RegistryClient, place: str, layers: list[Descriptor]) -> str:
    config = Descriptor(EMPTY_CONFIG, client.push_bytes(parse_reference(place), EMPTY), len(EMPTY))
    manifest = ImageManifest(config, tuple(layers))
    return client.push_manifest(parse_reference(place), manifest.encode(), MANIFEST)


def model_files(model: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(model.iterdir())}


def manifest(place: Path, registry: RealRegistry, name: str, revision: str, **more: Any) -> Path:
    """Write a manifest of a model that is in a registry."""
    path = write_manifest(place, **more)
    document = json.loads(path.read_text("utf-8"))
    source = {"type": "oci", "repo": f"{registry.host}/{name}", "revision": revision}
    document["model"]["weights"]["source"] = source
    path.write_text(json.dumps(document), "utf-8")
    return path


def lock(config: Path) -> Lock:
    return Lock.decode(lock_of(config).read_bytes(), name="the lock")


@pytest.mark.slow
def test_what_oras_pushed_is_realised_as_from_a_directory(
    tmp_path: Path, registry: RealRegistry, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    import oras.client  # type: ignore[import-untyped]

    config = manifest(tmp_path / "m", registry, "oras/model", "v1")
    monkeypatch.chdir(tmp_path / "m/model")
    oras.client.OrasClient(insecure=True, hostname=registry.host).push(
        target=f"{registry.host}/oras/model:v1",
        files=sorted(model_files(Path())),
    )
    monkeypatch.chdir(tmp_path)
    expected = realise(store, write_manifest(tmp_path / "local"), target="generation")
    with Store.open(tmp_path / "fresh") as fresh:
        found = realise(fresh, config, target="generation")
        assert found.outputs["results"] == expected.outputs["results"]
    make_writable(tmp_path / "fresh")
    commits = {each["commit"] for each in lock(config).sources.values()}
    assert len(commits) == 1
    assert commits.pop().startswith("sha256:")


def test_a_modelpack_artifact_is_taken_by_its_paths(
    tmp_path: Path, registry: RealRegistry, store: Store
) -> None:
    config = manifest(tmp_path / "m", registry, "modelpack/model", "v1")
    digest = push(registry.reference("modelpack/model:v1"), model_files(tmp_path / "m/model"))
    realise(store, config, target="closure")
    assert lock(config).sources["model.weight"] == {"commit": digest}
    pinned = manifest(tmp_path / "pinned", registry, "modelpack/model", digest)
    realise(store, pinned, target="closure")
    assert [f.identity for f in lock(pinned).artifacts] == [
        f.identity for f in lock(config).artifacts
    ]


@pytest.mark.slow
def test_the_manifests_of_an_index_count_as_one(
    tmp_path: Path, registry: RealRegistry, store: Store
) -> None:
    config = manifest(tmp_path / "m", registry, "closure/model", "v1")
    files = model_files(tmp_path / "m/model")
    children = []
    with contextlib.closing(RegistryClient()) as client:
        for name in files:
            place = registry.reference(f"closure/model:part-{name.replace('.', '-')}")
            digest = push(place, {name: files[name]}, path=TITLE)
            data = client.manifest(parse_reference(place)).data
            children.append(Descriptor(MANIFEST, Sha256(digest), len(data)))
        index = ImageIndex(tuple(children)).encode()
        client.push_manifest(parse_reference(registry.reference("closure/model:v1")), index, INDEX)
    assert realise(store, config, target="weights").outputs


def test_a_tag_that_was_pushed_again_changes_nothing_of_what_was_locked(
    tmp_path: Path, registry: RealRegistry, store: Store
) -> None:
    config = manifest(tmp_path / "m", registry, "moving/model", "latest")
    place = registry.reference("moving/model:latest")
    files = model_files(tmp_path / "m/model")
    first = push(place, files)
    expected = realise(store, config, target="closure")
    second = push(place, {**files, "generation_config.json": b'{"top_k":7}'})
    with Store.open(tmp_path / "fresh") as fresh:
        again = realise(fresh, config, target="closure", locked=True)
        assert again.main_output == expected.main_output
    make_writable(tmp_path / "fresh")
    loaded = load_manifest(config)
    found = check_lock(loaded, lock(config), store)
    assert {each.kind for each in found.findings} == {"commit", "digest"}
    assert f"'latest' is {second} now, and was {first}" in found.findings[0].message
    raw = read_manifest_files(config)
    moved, _ = make_lock(store, loaded, LockLocation.of(raw), update=["model.config"])
    assert moved.sources["model.config"] == {"commit": second}
    assert moved.sources["model.weight"] == {"commit": first}


def test_the_lock_can_be_made_of_what_the_manifest_says_alone(
    tmp_path: Path, registry: RealRegistry, store: Store
) -> None:
    config = manifest(tmp_path / "m", registry, "published/model", "v1")
    push(registry.reference("published/model:v1"), model_files(tmp_path / "m/model"))
    before = len(registry.requests())
    made, _ = make_lock(
        store, load_manifest(config), LockLocation.of(read_manifest_files(config)), fetch=False
    )
    assert {file.digest_source for file in made.files_of("model.weight")} == {"published"}
    assert not [
        line
        for line in registry.requests()[before:]
        if line.startswith("GET") and "/blobs/" in line
    ]


def test_a_dry_run_tells_every_layer_with_its_size(
    tmp_path: Path, registry: RealRegistry, store: Store
) -> None:
    config = manifest(tmp_path / "m", registry, "dry/model", "v1")
    files = model_files(tmp_path / "m/model")
    push(registry.reference("dry/model:v1"), files)
    planned = plan_target(store, TargetRequest(config)).downloads
    assert {each.path: each.size for each in planned}.items() <= {
        name: len(data) for name, data in files.items()
    }.items()
    assert {each.origin for each in planned} == {f"oci://{registry.host}/dry/model:v1"}


def test_layers_that_are_archives_are_refused_and_told(
    tmp_path: Path, registry: RealRegistry, store: Store
) -> None:
    config = manifest(tmp_path / "m", registry, "packed/model", "v1")
    kind = "application/vnd.cncf.model.weight.v1.tar"
    push(registry.reference("packed/model:v1"), model_files(tmp_path / "m/model"), kind=kind)
    with pytest.raises(LockRefusedError) as caught:
        realise(store, config)
    assert "is packed as application/vnd.cncf.model.weight.v1.tar" in str(caught.value.cause)


def test_titles_that_lead_elsewhere_are_no_files(
    tmp_path: Path, registry: RealRegistry, store: Store
) -> None:
    place = registry.reference("hostile/titles:v1")
    names = ["../../x", "/etc/passwd", "a\\b", "con.txt", "a\x1b[2Jb", "good.json"]
    push(place, {name: b"{}" + bytes([number]) for number, name in enumerate(names)}, path=TITLE)
    source = OciArtifact(f"{registry.host}/hostile/titles", "v1")
    assert source.listing() == ["good.json"]
    for name in names[:-1]:
        assert source.problem(name) is not None


def test_what_two_layers_claim_to_be_is_neither_of_them(registry: RealRegistry) -> None:
    place = registry.reference("disputed/model:v1")
    with contextlib.closing(RegistryClient()) as client:
        layers = [
            layer(client, place, data, WEIGHTS, **{TITLE: "config.json"}) for data in (b"{}", b"[]")
        ]
        push_layers(client, place, layers)
    assert OciArtifact(f"{registry.host}/disputed/model", "v1").listing() == []


def test_a_blob_that_was_changed_in_the_registry_is_refused(
    tmp_path: Path, registry: RealRegistry, store: Store
) -> None:
    config = manifest(tmp_path / "m", registry, "rotten/model", "v1")
    files = model_files(tmp_path / "m/model")
    files["generation_config.json"] = b'{"rotten":1}'
    push(registry.reference("rotten/model:v1"), files)
    blob = registry.blob_path(Sha256.of(files["generation_config.json"]))
    blob.write_bytes(b'{"rotten":2}')
    with pytest.raises((IntegrityError, BuildError)) as caught:
        realise(store, config)
    assert Sha256.of(b'{"rotten":1}') in str(caught.value)
    assert not lock_of(config).exists()


def test_another_digest_than_is_wanted_is_refused_before_a_byte_comes(
    registry: RealRegistry, store: Store
) -> None:
    push(registry.reference("other/model:v1"), {"config.json": b"{}"})
    source = OciArtifact(f"{registry.host}/other/model", "v1")
    wanted = WantedFile("config.json", 2, Sha256.of(b"[]"))
    before = len(registry.requests())
    with store.new_tree() as tree, pytest.raises(MismatchError, match=r"config\.json is not"):
        source.fetch([wanted], tree, lambda: None)
    assert not [line for line in registry.requests()[before:] if "/blobs/" in line]


def test_what_is_not_there_is_told_in_one_line(
    tmp_path: Path, registry: RealRegistry, store: Store
) -> None:
    config = manifest(tmp_path / "m", registry, "nobody/model", "v1")
    with pytest.raises(LockRefusedError) as caught:
        realise(store, config)
    assert caught.value.exit_code == 5
    assert "nobody/model" in str(caught.value.cause)
    assert not lock_of(config).exists()


def test_an_interruption_leaves_what_has_come_for_the_next_time(
    tmp_path: Path, registry: RealRegistry, store: Store
) -> None:
    data = bytes(range(256)) * (40 << 10)
    push(registry.reference("large/file:v1"), {"big.bin.json": data})
    source = OciArtifact(f"{registry.host}/large/file", "v1")
    came = 0

    def count(amount: int) -> None:
        nonlocal came
        came += amount
        if came > len(data) // 4:
            raise KeyboardInterrupt

    wanted = WantedFile("big.bin.json", len(data), Sha256.of(data))
    with store.new_tree() as tree, pytest.raises(KeyboardInterrupt):
        source.fetch([wanted], tree, lambda: None, count)
    assert store.unfinished_bytes() > 0
    before = len(registry.requests())
    with store.new_tree() as tree:
        (written,) = source.fetch([wanted], tree, lambda: None)
        tree.register()
    assert written.sha256 == wanted.sha256
    again = [
        line
        for line in registry.requests()[before:]
        if line.startswith("GET") and "/blobs/" in line
    ]
    # Parts alone, if anything: other ranges may have come whole before the first one was stopped.
    assert all(line.endswith(" 206") for line in again)
    assert store.unfinished_bytes() == 0


@pytest.mark.slow
def test_a_dataset_is_a_file_of_an_artifact(
    tmp_path: Path, registry: RealRegistry, store: Store
) -> None:
    local = write_manifest(tmp_path / "m")
    expected = realise(store, local, target="requests")
    push(
        registry.reference("data/prompts:v1"),
        {"p/prompts.txt": (tmp_path / "m/prompts.txt").read_bytes()},
    )
    source = {
        "type": "oci",
        "repo": f"{registry.host}/data/prompts",
        "revision": "v1",
        "path": "p/prompts.txt",
    }
    with Store.open(tmp_path / "fresh") as fresh:
        found = realise(
            fresh, local, f"inference.dataset.source={json.dumps(source)}", target="requests"
        )
        assert found.main_output == expected.main_output
    make_writable(tmp_path / "fresh")
