"""A container image of a closure: run by other programs from the tag of the closure, and pulled back as its object."""

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dis_derivations.distribution import file_parts, layout
from dis_derivations.distribution.kept import Kept, kept_by
from dis_derivations.distribution.pulling import plan_pull, pull
from dis_derivations.distribution.pushing import Push, Pushed, PushPlan, plan_push
from dis_derivations.distribution.remote_closure import fetch_closure
from dis_derivations.images.image_layout import INDEX_FILE, LAYOUT_BYTES, LAYOUT_FILE, blob_path
from dis_derivations.images.stored_image import read_stored
from dis_derivations.images.tar_stream import TAR_END, padding, tar_header
from dis_derivations.registry.client import RegistryClient
from dis_derivations.registry.documents import Descriptor, read_index
from dis_derivations.registry.errors import RegistryMismatchError
from dis_derivations.registry.reference import RegistryReference, parse_reference
from dis_store import Root, Store
from dis_store.digest import Digest, Sha256
from docker_engine import docker_engine
from images import Json, LayoutMaker, sha256, tar_of
from real_registry import RealRegistry, need, running_registry
from stored_images import store_image

PAGES = Path(__file__).parents[3] / "docs/internals/formats"
RUN = {"Entrypoint": ["/hello"]}
DOCKER = "application/vnd.docker"


def place_in(registry: RealRegistry, name: str) -> RegistryReference:
    return parse_reference(registry.reference(name))


def push(store: Store, client: RegistryClient, kept: Kept, place: RegistryReference) -> Pushed:
    return Push(client, plan_push(store, kept, place)).run()


def as_docker(manifest: Json) -> None:
    """Turn a manifest of OCI into one of Docker."""
    manifest["mediaType"] = f"{DOCKER}.distribution.manifest.v2+json"
    manifest["config"]["mediaType"] = f"{DOCKER}.container.image.v1+json"
    for layer in manifest["layers"]:
        layer["mediaType"] = f"{DOCKER}.image.rootfs.diff.tar.gzip"


def an_image(
    store: Store, path: Path, content: bytes = b"hello", *, docker: bool = False
) -> Digest:
    maker = LayoutMaker(path)
    layers = [tar_of({"hello": content}), tar_of({"more": content * 1000})]
    change = as_docker if docker else lambda _: None
    maker.finish(maker.image(layers, config=RUN, change=change))
    return store_image(store, maker)


def closure_with(store: Store, image: Digest) -> Kept:
    """Return a closure as the builder makes it: a model, and the image that its engine runs in."""
    with store.new_tree() as tree:
        tree.write_bytes("model/model.safetensors", b"numbers" * 1000)
        tree.reference("image", image)
        root = tree.register()
    return kept_by(store, Root(root), outputs_only=False)


@pytest.fixture
def image(here: Store, tmp_path: Path) -> Digest:
    return an_image(here, tmp_path / "layout")


def skopeo(*arguments: str) -> str:
    need("skopeo")
    done = subprocess.run(["skopeo", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_image_is_a_part_under_its_own_digest_and_platform(here: Store, image: Digest) -> None:
    stored = read_stored(here, image)
    plan = plan_push(here, closure_with(here, image), parse_reference("oci://x.example/r:one"))

    (part,) = [each for each in read_index(plan.index).manifests if each.platform["os"] == "linux"]
    assert (part.digest, part.size) == (stored.image.manifest.digest, stored.image.manifest.size)
    assert part.platform == {"os": "linux", "architecture": "amd64"}
    assert part.annotations == {
        layout.CHILD_NAME: "image",
        layout.KIND_NAME: layout.IMAGE_KIND,
        layout.OBJECT_NAME: image,
    }
    names = [each.name for each in plan.parts]
    assert len(names) == len(set(names)) == 4
    assert {"image", "image-layout", "records"} <= set(names)


def test_the_blobs_of_an_image_travel_once(here: Store, image: Digest) -> None:
    kept = closure_with(here, image)
    plan = plan_push(here, kept, parse_reference("oci://x.example/r:one"))
    without = [part for part in plan.parts if part.name != "image"]

    assert plan.size == sum({b.digest: b.size for p in without for b in p.blobs}.values())


@pytest.mark.parametrize("docker", [False, True], ids=["oci", "docker"])
def test_an_image_comes_back_as_the_object_that_it_was(
    registry: RealRegistry,
    client: RegistryClient,
    here: Store,
    there: Store,
    tmp_path: Path,
    docker: bool,
) -> None:
    image = an_image(here, tmp_path / "layout", docker=docker)
    kept = closure_with(here, image)
    place = place_in(registry, f"image/back-{docker:d}:one")
    pushed = push(here, client, kept, place)

    pulled = pull(there, client, plan_pull(there, client, pushed.reference))

    assert pulled.root == kept.root
    assert there.tree(image) == here.tree(image)
    assert read_stored(there, image).id == read_stored(here, image).id
    assert there.verify().problems == ()
    assert push(here, client, kept, place) == replace(pushed, sent=0)


def test_the_image_alone_can_be_asked_for(
    registry: RealRegistry, client: RegistryClient, here: Store, there: Store, image: Digest
) -> None:
    place = place_in(registry, "image/alone:one")
    push(here, client, closure_with(here, image), place)

    pull(there, client, plan_pull(there, client, place, only="image"))

    assert there.objects() == [image]


@pytest.mark.parametrize("docker", [False, True], ids=["oci", "docker"])
def test_skopeo_finds_the_image_under_the_tag_of_the_closure_and_copies_it(
    registry: RealRegistry, client: RegistryClient, here: Store, tmp_path: Path, docker: bool
) -> None:
    image = an_image(here, tmp_path / "layout", docker=docker)
    stored = read_stored(here, image)
    name = f"image/skopeo-{docker:d}"
    push(here, client, closure_with(here, image), place_in(registry, f"{name}:one"))
    source = f"docker://{registry.host}/{name}:one"

    inspected = json.loads(skopeo("inspect", "--tls-verify=false", source))
    where = f"dir:{tmp_path / 'copy'}"
    skopeo("copy", "--preserve-digests", "--src-tls-verify=false", source, where)

    layers = [str(each.digest) for each in stored.image.content.layers]
    assert (inspected["Os"], inspected["Layers"]) == ("linux", layers)
    assert (tmp_path / "copy/manifest.json").read_bytes() == stored.image.manifest_bytes
    for each in stored.image.content.blobs:
        assert sha256((tmp_path / "copy" / each.digest.hex).read_bytes()) == each.digest


@pytest.mark.parametrize("docker", [False, True], ids=["oci", "docker"])
def test_skopeo_copies_the_whole_closure_with_its_image(
    registry: RealRegistry,
    client: RegistryClient,
    here: Store,
    there: Store,
    tmp_path: Path,
    docker: bool,
) -> None:
    image = an_image(here, tmp_path / "layout", docker=docker)
    name = f"image/all-{docker:d}"
    pushed = push(here, client, closure_with(here, image), place_in(registry, f"{name}:one"))

    skopeo(
        "copy",
        "--all",
        "--preserve-digests",
        "--src-tls-verify=false",
        "--dest-tls-verify=false",
        f"docker://{registry.host}/{name}:one",
        f"docker://{registry.host}/{name}-copy:one",
    )

    copy = place_in(registry, f"{name}-copy:one")
    assert client.resolve(copy) == pushed.reference.digest
    pull(there, client, plan_pull(there, client, copy))
    assert there.is_valid(image)


def test_layers_that_another_repository_has_are_mounted(
    registry: RealRegistry, client: RegistryClient, here: Store, image: Digest, tmp_path: Path
) -> None:
    engine = f"docker://{registry.host}/image/engine:v1"
    skopeo("copy", "--dest-tls-verify=false", f"oci:{tmp_path / 'layout'}", engine)
    kept = closure_with(here, image)
    place = place_in(registry, "image/mounted:one")

    pushed = Push(
        client, plan_push(here, kept, place), mount_from=("image/nothing", "image/engine")
    ).run()

    blobs = read_stored(here, image).image.content.blobs
    assert pushed.mounted >= sum(blob.size for blob in blobs)
    assert pushed.sent == pushed.size - pushed.mounted


def test_what_was_pushed_without_the_image_as_a_part_is_still_pulled(
    registry: RealRegistry, client: RegistryClient, here: Store, there: Store, image: Digest
) -> None:
    kept = closure_with(here, image)
    place = place_in(registry, "image/before:one")
    plan = plan_push(here, kept, place)
    index = read_index(plan.index)
    before = tuple(
        each for each in index.manifests if each.annotations[layout.KIND_NAME] != layout.IMAGE_KIND
    )
    parts = tuple(part for part in plan.parts if part.name != "image")
    old = replace(plan, parts=parts, index=replace(index, manifests=before).encode())
    assert len(before) == len(index.manifests) - 1
    Push(client, old).run()

    pulled = pull(there, client, plan_pull(there, client, place))

    assert pulled.root == kept.root
    assert read_stored(there, image).id == read_stored(here, image).id


def with_image(plan: PushPlan, descriptor: Descriptor) -> bytes:
    """Return the index of a closure that offers another image."""
    index = read_index(plan.index)
    return replace(
        index,
        manifests=tuple(
            replace(each, digest=descriptor.digest, size=descriptor.size)
            if each.annotations[layout.KIND_NAME] == layout.IMAGE_KIND
            else each
            for each in index.manifests
        ),
    ).encode()


@pytest.mark.parametrize("known", [False, True], ids=["fetched", "in the store"])
def test_a_closure_that_offers_another_image_than_its_own_is_refused(
    registry: RealRegistry,
    client: RegistryClient,
    here: Store,
    there: Store,
    image: Digest,
    tmp_path: Path,
    known: bool,
) -> None:
    place = place_in(registry, f"image/evil-{known:d}:one")
    plan = plan_push(here, closure_with(here, image), place)
    evil = an_image(here, tmp_path / "evil", b"evil")
    other = plan_push(here, closure_with(here, evil), place.with_tag("evil"))
    if known:
        Push(client, plan).run()
        pull(there, client, plan_pull(there, client, place))
    Push(client, other).run()
    (theirs,) = [part for part in other.parts if part.name == "image"]
    Push(client, replace(plan, index=with_image(plan, theirs.descriptor))).run()
    before = there.objects()

    with pytest.raises(RegistryMismatchError) as caught:
        plan_pull(there, client, place)

    assert str(image) in str(caught.value.cause)
    assert there.objects() == before


def test_a_large_layer_is_never_cut_because_images_know_no_parts(
    here: Store, image: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_parts, "LARGEST", 100)
    monkeypatch.setattr(file_parts, "SMALLEST", (50, 100))
    kept = closure_with(here, image)

    plan = plan_push(here, kept, parse_reference("oci://x.example/r:one"), in_parts=True)

    (files,) = [part for part in plan.parts if part.name == "image-layout"]
    assert b"vnd.dis.part" not in files.manifest
    assert any(b"vnd.dis.part" in part.manifest for part in plan.parts)


def test_a_layout_that_is_not_as_dis_keeps_images_is_an_object_like_any_other(here: Store) -> None:
    with here.new_tree() as tree:
        tree.write_bytes(LAYOUT_FILE, LAYOUT_BYTES)
        tree.write_bytes(INDEX_FILE, b'{"schemaVersion":2,"manifests":[]}')
        digest = tree.register()
    kept = kept_by(here, Root(digest), outputs_only=False)

    plan = plan_push(here, kept, parse_reference("oci://x.example/r:one"))

    assert [part.name for part in plan.parts] == ["image-layout", "records"]


def test_the_example_of_the_page_is_what_a_push_makes(here: Store) -> None:
    example = (PAGES / "image.md").read_text("utf-8").partition("## Example")[2]
    example = example.partition("\n## ")[0]
    manifest, config, index = (
        block.encode() for block in re.findall(r"```json\n(.*)\n```", example)
    )
    layer = tar_header("hello", 6) + b"hello\n" + padding(6) + TAR_END
    with here.new_tree() as tree:
        tree.write_bytes(LAYOUT_FILE, LAYOUT_BYTES)
        tree.write_bytes(INDEX_FILE, index)
        for data in (manifest, config, layer):
            tree.write_bytes(blob_path(Sha256.of(data)), data)
        digest = tree.register()
    kept = kept_by(here, Root(digest), outputs_only=False)
    plan = plan_push(here, kept, parse_reference("oci://x.example/r:one"))

    text = (PAGES / "registry.md").read_text("utf-8").partition("## An image")[2]
    text = text.partition("\n## ")[0]
    shown = [json.loads(block) for block in re.findall(r"```json\n(.*?)\n```", text, re.DOTALL)]

    assert shown == [each.to_json() for each in read_index(plan.index).manifests[:2]]
    (files,) = [part for part in plan.parts if part.name == "image-layout"]
    assert f"`{files.descriptor.digest}`" in text


def test_a_collection_of_the_registry_that_deletes_what_has_no_tag_leaves_the_image_whole(
    client: RegistryClient, here: Store, there: Store, image: Digest, tmp_path: Path
) -> None:
    kept = closure_with(here, image)
    with running_registry(tmp_path / "registry") as registry:
        place = place_in(registry, "image/collected:one")
        push(here, client, kept, place)

        registry.collect_garbage("--delete-untagged")

        pull(there, client, plan_pull(there, client, place))
        assert there.is_valid(image)
        inspected = skopeo(
            "inspect", "--tls-verify=false", f"docker://{registry.host}/image/collected:one"
        )
        assert json.loads(inspected)["Os"] == "linux"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with docker_engine(tmp_path_factory.mktemp("d")) as found:
        yield found


@pytest.mark.slow
def test_docker_pulls_the_image_by_the_tag_of_the_closure(
    registry: RealRegistry, client: RegistryClient, here: Store, image: Digest, engine: str
) -> None:
    from dis_derivations.images.docker_engine import DockerEngine

    push(here, client, closure_with(here, image), place_in(registry, "image/docker:one"))
    with DockerEngine.connect({"DOCKER_HOST": engine}) as docker:
        docker.client.pull(f"{registry.host}/image/docker", tag="one")
        found = docker.client.inspect_image(f"{registry.host}/image/docker:one")

    assert found["Id"] == read_stored(here, image).id
    assert fetch_closure(client, place_in(registry, "image/docker:one")).named("image").object
