"""Images in a real registry: resolved, fetched by digest, gone on with, and refused when they are others."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import ROOT, Outcome, call
from dis_derivations.images.image_reference import image_reference
from dis_derivations.images.platform import Platform
from dis_derivations.images.registry_place import RegistryPlace
from dis_derivations.images.resolution import ResolvedImage, resolve_image
from dis_derivations.images.source import ImageSource
from dis_derivations.images.stored_image import read_stored
from dis_derivations.lock.resolution import resolve_lock
from dis_derivations.manifest.loading import load_manifest
from dis_store import Store
from dis_store.digest import Digest
from images import Json, LayoutMaker, platform, tar_of
from real_registry import RealRegistry, need, running_registry

QUICKSTART = ROOT / "configs/quickstart.json"
FIELD = "runtime.execution.vllm_image"
AMD64 = Platform("linux", "amd64")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    need("skopeo")
    with running_registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture
def layout(tmp_path: Path) -> LayoutMaker:
    return LayoutMaker(tmp_path / "layout")


def push(registry: RealRegistry, layout: LayoutMaker, name: str) -> str:
    """Push the one entry of a layout, and all that it leads to, byte for byte; return its name there."""
    target = f"{registry.host}/{name}"
    command = ["skopeo", "copy", "--quiet", "--all", "--preserve-digests", "--insecure-policy"]
    places = [f"oci:{layout.directory}", f"docker://{target}"]
    done = subprocess.run(
        [*command, "--dest-tls-verify=false", *places], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return target


def resolved(name: str) -> ResolvedImage:
    return resolve_image(RegistryPlace(image_reference(name)), AMD64)


def dis(tmp_path: Path, *words: str) -> Outcome:
    return call(["--store", str(tmp_path / "store"), *words])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "work/manifest.json"
    path.parent.mkdir()
    document = {
        "x_base_manifest": str(QUICKSTART),
        "artifacts": {"lockfile": str(tmp_path / "lock.json")},
    }
    path.write_text(json.dumps(document))
    return path


def test_a_tag_is_locked_and_its_image_is_fetched(
    tmp_path: Path, registry: RealRegistry, layout: LayoutMaker, config: Path
) -> None:
    image = layout.image([tar_of({"a": b"1" * 100_000}), tar_of({"b": b"2"})], packing="+zstd")
    layout.finish(image)
    words = ["--set", f"{FIELD}={push(registry, layout, 'engine:v1')}"]
    assert dis(tmp_path, "realize", f"{config}#image", *words).code == 2
    locked = dis(tmp_path, "lock", str(config), "--no-fetch", *words)
    assert locked.code == 0, locked.err
    assert json.loads((tmp_path / "lock.json").read_bytes())["sources"]["runtime.image"] == {
        "digest": image["digest"],
        "manifest": image["digest"],
        "config": json.loads(layout.path(image["digest"]).read_bytes())["config"]["digest"],
        "platform": "linux/amd64",
    }
    realised = dis(tmp_path, "realize", f"{config}#image", *words, "--json")
    assert realised.code == 0, realised.err
    with Store.open(tmp_path / "store") as store:
        found = read_stored(store, Digest(realised.document["outputs"]["out"]["digest"]))
    assert str(found.image.manifest.digest) == image["digest"]
    assert [layer.media_type[-4:] for layer in found.image.content.layers] == ["zstd", "zstd"]


def test_a_registry_and_a_layout_make_the_same_lock(
    tmp_path: Path, registry: RealRegistry, layout: LayoutMaker
) -> None:
    arm = layout.image([tar_of({"arm": b""})], architecture="arm64", platform=platform("arm64"))
    amd = layout.image([tar_of({"amd": b""})], platform=platform("amd64"))
    index = layout.index(arm, amd)
    layout.finish(index)
    name = push(registry, layout, "multi:v1").removesuffix(":v1")
    pinned = f"{name}@{index['digest']}"
    places = ([f"{FIELD}={pinned}"], [f"{FIELD}={pinned}", f"{FIELD}_path={layout.directory}"])
    with Store.open(tmp_path / "store") as store:
        locks = [
            resolve_lock(load_manifest(QUICKSTART, each), store, previous=None) for each in places
        ]
    assert locks[0].lock_id == locks[1].lock_id
    assert locks[0].sources["runtime.image"]["digest"] == index["digest"]
    assert locks[0].sources["runtime.image"]["manifest"] == amd["digest"]


def test_only_the_image_of_the_platform_is_fetched(
    registry: RealRegistry, layout: LayoutMaker
) -> None:
    arm = layout.image([tar_of({"x": b"arm"})], architecture="arm64", platform=platform("arm64"))
    amd = layout.image([tar_of({"x": b"amd"})], platform=platform("amd64"))
    layout.finish(layout.index(arm, amd))
    name = push(registry, layout, "platforms:v1")
    before = len(registry.requests())
    source = ImageSource(name)
    assert source.resolved().manifest.digest == amd["digest"]
    asked = "\n".join(registry.requests()[before:])
    assert amd["digest"] in asked
    assert arm["digest"] not in asked


def test_layers_that_the_store_has_are_not_fetched_again(
    tmp_path: Path, registry: RealRegistry, layout: LayoutMaker, config: Path
) -> None:
    shared, more = tar_of({"base": b"b" * 50_000}), tar_of({"top": b"t"})
    small = layout.image([shared])
    layout.finish(small)
    first = push(registry, layout, "shared:small")
    layout.finish(layout.image([shared, more]))
    second = push(registry, layout, "shared:big")
    for name in (first, second):
        before = len(registry.requests())
        assert dis(tmp_path, "lock", str(config), "--set", f"{FIELD}={name}").code == 0
    layer = json.loads(layout.path(small["digest"]).read_bytes())["layers"][0]["digest"]
    assert not [line for line in registry.requests()[before:] if layer in line]


def test_a_blob_that_was_changed_in_the_registry_is_refused(
    tmp_path: Path, registry: RealRegistry, layout: LayoutMaker, config: Path
) -> None:
    image: Json = layout.image([tar_of({"a": b"changed later"})], packing="")
    layout.finish(image)
    name = push(registry, layout, "changed:v1")
    layer = json.loads(layout.path(image["digest"]).read_bytes())["layers"][0]
    path = registry.blob_path(layer["digest"])
    good = path.read_bytes()
    path.write_bytes(good.replace(b"changed", b"CHANGED"))
    words = ["--set", f"{FIELD}={name}"]
    outcome = dis(tmp_path, "lock", str(config), *words)
    outcome.check_one_block()
    assert outcome.code == 4
    assert not (tmp_path / "lock.json").exists()
    path.write_bytes(good)
    assert dis(tmp_path, "lock", str(config), *words).code == 0


def test_an_image_that_is_not_there_is_told_of(
    tmp_path: Path, registry: RealRegistry, config: Path
) -> None:
    name = f"{registry.host}/nowhere:v1"
    outcome = dis(tmp_path, "lock", str(config), "--set", f"{FIELD}={name}")
    outcome.check_one_block()
    assert outcome.code == 5
    assert "runtime.image" in outcome.err


def test_what_dis_keeps_can_be_pushed_again_by_others(
    tmp_path: Path, registry: RealRegistry, layout: LayoutMaker
) -> None:
    image = layout.image([tar_of({"a": b"round"})])
    layout.finish(image)
    source = ImageSource(push(registry, layout, "round:v1"))
    from dis_derivations.sources.source import WantedFile

    with Store.open(tmp_path / "store") as store:
        with store.new_tree() as tree:
            source.fetch([WantedFile(path) for path in source.listing()], tree, lambda: None)
            digest = tree.register()
        kept = LayoutMaker(tmp_path / "kept")
        shutil.rmtree(kept.directory)
        shutil.copytree(store.object_path(digest), kept.directory)
    again = push(registry, kept, "round:again")
    assert str(resolved(again).manifest.digest) == image["digest"]
