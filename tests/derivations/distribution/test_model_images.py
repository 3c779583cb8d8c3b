"""A model as a container image: the same bytes every time, and what Docker and skopeo get of it is the model."""

import io
import json
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.distribution import model_image as module
from dis_derivations.distribution.image_pushing import look_at_image, push_image
from dis_derivations.distribution.kept import kept_by, model_of
from dis_derivations.distribution.model_image import ModelImage, model_files, model_image
from dis_derivations.distribution.segments import Segment, Segments
from dis_derivations.distribution.sending import Sending
from dis_derivations.distribution.workers import Stop
from dis_derivations.images.docker_engine import DockerEngine
from dis_derivations.images.from_environment import image_from_environment
from dis_derivations.images.stored_image import StoredImage, read_stored
from dis_derivations.registry.client import RegistryClient
from dis_derivations.registry.reference import RegistryReference, parse_reference
from dis_store import Root, Store
from dis_store.digest import Digest, Sha256
from dis_store.errors import InvalidInputError
from docker_engine import docker_engine
from images import Json, LayoutMaker, tar_of
from real_registry import RealRegistry, need
from stored_images import store_image
from tiny_runs import Built

PAGE = Path(__file__).parents[3] / "docs/internals/formats/registry.md"
CONFIG = {
    "Entrypoint": ["/bin/serve"],
    "Env": ["PATH=/bin"],
    "User": "65534:65534",
}


def a_model(store: Store, seed: int = 1) -> Digest:
    with store.new_tree() as tree:
        tree.write_bytes("config.json", b'{"seed":%d}' % seed)
        tree.write_bytes("model.safetensors", bytes(range(256)) * 4096)
        tree.write_bytes("onnx/deep/model.bin", b"deep")
        tree.write_bytes("tool.sh", b"#!/bin/sh\n", executable=True)
        tree.write_bytes("empty", b"")
        return tree.register()


def closure_of(store: Store, model: Digest) -> Digest:
    with store.new_tree() as tree:
        for file in store.files(model):
            tree.reference(f"model/{file.path}", model, file.path)
        tree.write_bytes("closure.json", b'{"format":1}')
        tree.reference("environment", model)
        return tree.register()


def a_base(
    store: Store, path: Path, *, docker: bool = False, config: Json = CONFIG, layers: int = 2
) -> StoredImage:
    def change(manifest: Json) -> None:
        if docker:
            manifest["mediaType"] = "application/vnd.docker.distribution.manifest.v2+json"
            manifest["config"]["mediaType"] = "application/vnd.docker.container.image.v1+json"
            for each in manifest["layers"]:
                each["mediaType"] = "application/vnd.docker.image.rootfs.diff.tar.gzip"

    maker = LayoutMaker(path)
    contents = [tar_of({f"bin/{number}": b"%d" % number}) for number in range(layers)]
    maker.finish(maker.image(contents, config=config, change=change))
    return read_stored(store, store_image(store, maker))


def documents(image: ModelImage) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return manifest and configuration."""
    (config,) = [each for each in image.blobs if each.digest == image.config]
    return json.loads(image.manifest), json.loads(b"".join(config.read(0, config.size)))


def layers_of(image: ModelImage) -> list[bytes]:
    blobs = {each.digest: each for each in image.blobs}
    named = [Sha256(each["digest"]) for each in documents(image)[0]["layers"]]
    return [b"".join(blobs[each].read(0, blobs[each].size)) for each in named]


def members(data: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        return archive.getmembers()


def sending(
    client: RegistryClient, place: RegistryReference, mount_from: tuple[str, ...] = ()
) -> Sending:
    return Sending(client, place, mount_from, None, Stop())


def place_in(registry: RealRegistry, name: str) -> RegistryReference:
    return parse_reference(registry.reference(name))


# -- what is made ----------------------------------------------------------------------------------


def test_each_file_has_a_layer_with_nothing_in_it_that_could_differ(here: Store) -> None:
    image = model_image(here, a_model(here))

    found = [members(data) for data in layers_of(image)]

    assert [each[-1].name for each in found] == [
        "models/config.json",
        "models/empty",
        "models/model.safetensors",
        "models/onnx/deep/model.bin",
        "models/tool.sh",
    ]
    assert [each.name for each in found[3]] == [
        "models",
        "models/onnx",
        "models/onnx/deep",
        "models/onnx/deep/model.bin",
    ]
    for member in [each for layer in found for each in layer]:
        assert (member.mtime, member.uid, member.gid, member.uname, member.gname) == (
            0,
            0,
            0,
            "",
            "",
        )
        executable = member.isdir() or member.name.endswith(".sh")
        assert member.mode == (0o755 if executable else 0o644)
    manifest, config = documents(image)
    assert {each["mediaType"] for each in manifest["layers"]} == {
        "application/vnd.oci.image.layer.v1.tar"
    }
    assert config["rootfs"]["diff_ids"] == [each["digest"] for each in manifest["layers"]]


def test_the_same_files_make_the_same_image_whatever_object_and_store_they_are_in(
    here: Store, there: Store
) -> None:
    closure = closure_of(here, a_model(here))

    first = model_image(here, closure)

    assert first.manifest == model_image(here, a_model(here)).manifest
    assert first.manifest == model_image(there, a_model(there)).manifest
    assert first.manifest != model_image(there, a_model(there, seed=2)).manifest


def test_the_digest_on_the_page_is_that_of_the_code(here: Store) -> None:
    with here.new_tree() as tree:
        tree.write_bytes("a", b"hello\n")
        digest = tree.register()
    (layer,) = documents(model_image(here, digest))[0]["layers"]

    assert f"`{layer['digest']}`" in PAGE.read_text("utf-8")
    # A change of it is a change of a format that others have pinned.
    assert layer == {
        "mediaType": "application/vnd.oci.image.layer.v1.tar",
        "digest": "sha256:babac768ecb8dbd1d150ecc33dc1b22f46d5b8b1c6dc1260d400e18cfd2e15e0",
        "size": 2560,
    }


def test_layers_are_not_read_again_to_know_their_digests(
    here: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = a_model(here)
    first = model_image(here, digest)
    monkeypatch.setattr(Segments, "read", lambda *_: pytest.fail("it was read again"))

    assert model_image(here, digest).manifest == first.manifest


def test_of_a_closure_it_is_the_model_and_of_a_run_the_one_that_it_ran(
    here: Store, built: Built
) -> None:
    model = a_model(here)
    assert set(model_files(here, closure_of(here, model))) == {
        file.path for file in here.files(model)
    }

    exported = model_of(kept_by(built.store, built.root, outputs_only=False))

    assert exported != built.root.object
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(
        model_files(built.store, exported)
    )
    weights = Root(model)
    assert model_of(kept_by(here, weights, outputs_only=False)) == model


@pytest.mark.parametrize("docker", [False, True], ids=["oci", "docker"])
def test_an_image_below_is_run_as_before_and_its_layers_are_as_they_were(
    here: Store, tmp_path: Path, docker: bool
) -> None:
    base = a_base(here, tmp_path / "base", docker=docker)

    image = model_image(here, a_model(here), base)

    manifest, config = documents(image)
    below = base.image.content.layers
    assert [each["digest"] for each in manifest["layers"][:2]] == [each.digest for each in below]
    assert {each["mediaType"] for each in manifest["layers"][:2]} == {
        "application/vnd.oci.image.layer.v1.tar+gzip"
    }
    assert config["config"] == CONFIG
    assert config["rootfs"]["diff_ids"][:2] == list(base.image.config.diff_ids)
    assert len(config["history"]) == len(manifest["layers"]) == image.layers == 7
    assert manifest["annotations"] == {
        "org.opencontainers.image.base.digest": base.image.manifest.digest
    }
    assert base.id not in {each.digest for each in image.blobs}


def many_files(store: Store, count: int) -> Digest:
    with store.new_tree() as tree:
        for number in range(count):
            tree.write_bytes(f"{number:03d}", b"x" * number)
        return tree.register()


def test_where_there_are_more_files_than_layers_the_largest_have_one_each(
    here: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_LAYERS", 6)
    digest = many_files(here, 10)

    plain = layers_of(model_image(here, digest))
    based = model_image(here, digest, a_base(here, tmp_path / "base"))

    assert len(plain) == based.layers == 6
    assert [member.name for member in members(plain[0])] == [
        "models",
        *(f"models/{number:03d}" for number in range(5)),
    ]
    assert [members(each)[-1].name for each in plain[1:]] == [
        f"models/{number:03d}" for number in range(5, 10)
    ]
    assert len(layers_of(model_image(here, many_files(here, 6)))) == 6


def test_an_image_below_with_too_many_layers_is_refused(
    here: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_LAYERS", 2)

    with pytest.raises(InvalidInputError) as caught:
        model_image(here, a_model(here), a_base(here, tmp_path / "base"))

    assert "too many layers" in caught.value.what


@pytest.mark.parametrize("path", [".wh.model", "a/.wh.b/c", ".wh..wh..opq"])
def test_a_name_that_deletes_in_layers_is_refused(here: Store, path: str) -> None:
    with here.new_tree() as tree:
        tree.write_bytes(path, b"x")
        digest = tree.register()

    with pytest.raises(InvalidInputError) as caught:
        model_image(here, digest)

    assert path in str(caught.value.cause)


def test_an_object_without_files_is_refused(here: Store) -> None:
    with here.new_tree() as tree:
        digest = tree.register()

    with pytest.raises(InvalidInputError):
        model_image(here, digest)


@given(data=st.data())
def test_any_stretch_of_segments_can_be_read(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = bytes(range(200))
    path = tmp_path_factory.getbasetemp() / "stretch"
    path.write_bytes(whole)
    sizes = data.draw(st.lists(st.integers(0, 200), max_size=6))
    files = [data.draw(st.booleans()) for _ in sizes]
    segments = Segments(
        Segment(size, path=path) if is_file else Segment.of_bytes(whole[:size])
        for size, is_file in zip(sizes, files, strict=True)
    )
    start = data.draw(st.integers(0, segments.size))
    end = data.draw(st.integers(start, segments.size))

    assert segments.size == sum(sizes)
    assert (
        b"".join(segments.read(start, end)) == b"".join(whole[:size] for size in sizes)[start:end]
    )


# -- where it goes ---------------------------------------------------------------------------------


def skopeo(*arguments: str) -> str:
    need("skopeo")
    done = subprocess.run(["skopeo", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_skopeo_copies_it_to_a_layout_whose_layers_hold_the_model(
    registry: RealRegistry, client: RegistryClient, here: Store, tmp_path: Path
) -> None:
    model = a_model(here)
    image = model_image(here, model)
    place = place_in(registry, "models/skopeo:v1")
    assert look_at_image(sending(client, place), image).sent == image.size
    assert client.find(place) is None

    pushed = push_image(sending(client, place), image)

    assert (pushed.sent, pushed.reference.digest) == (image.size, image.digest)
    assert push_image(sending(client, place), image).sent == 0
    source = f"docker://{registry.host}/models/skopeo:v1"
    # Otherwise it compresses layers on their way to a layout.
    whole = ("--preserve-digests", "--src-tls-verify=false")
    skopeo("copy", *whole, source, f"oci:{tmp_path / 'copy'}")
    with Store.open(tmp_path / "again") as again:
        copied = read_stored(again, store_image(again, _Layout(tmp_path / "copy")))
        assert copied.image.manifest.digest == image.digest
        found = {}
        for layer in copied.image.content.layers:
            with tarfile.open(copied.blobs[layer.digest], "r:") as archive:
                for member in archive:
                    if (stream := archive.extractfile(member)) is not None:
                        found[member.name] = Digest.of(stream.read())
    assert found == {f"models/{file.path}": file.blake3 for file in here.files(model)}


class _Layout(LayoutMaker):
    """A layout that somebody else wrote."""

    def __post_init__(self) -> None:
        """Write nothing."""


def test_layers_of_the_image_below_are_mounted(
    registry: RealRegistry, client: RegistryClient, here: Store, tmp_path: Path
) -> None:
    base = a_base(here, tmp_path / "base")
    skopeo(
        "copy", "--dest-tls-verify=false", f"oci:{tmp_path / 'base'}",
        f"docker://{registry.host}/models/base:v1",
    )  # fmt: skip
    image = model_image(here, a_model(here), base)

    pushed = push_image(
        sending(client, place_in(registry, "models/mounted:v1"), ("models/base",)), image
    )

    assert pushed.mounted == sum(layer.size for layer in base.image.content.layers)


def test_a_large_model_is_sent_in_little_memory_and_no_file(
    registry: RealRegistry, client: RegistryClient, here: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 96 << 20
    with here.new_tree() as tree:
        tree.write_stream("model.safetensors", _Zeros(size), size=size)  # type: ignore[arg-type]
        digest = tree.register()
    before = {path for path in here.path.rglob("*") if path.is_file()}
    tracemalloc.start()
    try:
        image = model_image(here, digest)
        push_image(sending(client, place_in(registry, "models/large:v1")), image)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 8 << 20
    grown = [
        path
        for path in here.path.rglob("*")
        if path.is_file() and path not in before and path.stat().st_size > 1 << 20
    ]
    assert grown == []
    (large,) = [each for each in image.blobs if each.size > size]
    assert registry.blob_path(large.digest).stat().st_size == large.size


class _Zeros:
    def __init__(self, size: int) -> None:
        self._left = size

    def read(self, size: int = -1) -> bytes:
        piece = min(self._left, size if size >= 0 else 1 << 20)
        self._left -= piece
        return bytes(piece)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerEngine]:
    with (
        docker_engine(tmp_path_factory.mktemp("d")) as address,
        DockerEngine.connect({"DOCKER_HOST": address}) as found,
    ):
        yield found


@pytest.mark.slow
def test_docker_pulls_it_and_copies_the_model_out(
    registry: RealRegistry, client: RegistryClient, here: Store, engine: DockerEngine
) -> None:
    model = a_model(here)
    image = model_image(here, model)
    push_image(sending(client, place_in(registry, "models/docker:v1")), image)

    name = f"{registry.host}/models/docker"
    engine.client.pull(name, tag="v1")
    assert engine.client.inspect_image(f"{name}:v1")["Id"] == image.config
    container = engine.client.create_container(f"{name}:v1", command=["/none"])["Id"]
    try:
        stream, _ = engine.client.get_archive(container, "/models")
        data = b"".join(stream)
    finally:
        engine.client.remove_container(container)

    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        found = {
            member.name: (Digest.of(stream.read()), bool(member.mode & 0o111))
            for member in archive
            if (stream := archive.extractfile(member)) is not None
        }
    assert found == {
        f"models/{file.path}": (file.blake3, file.executable) for file in here.files(model)
    }


@pytest.mark.slow
def test_a_program_of_the_image_below_reads_the_model_as_nobody(
    registry: RealRegistry, client: RegistryClient, here: Store, engine: DockerEngine
) -> None:
    with here.new_tree() as tree:
        tree.write_bytes("hello.py", b"WORD = 'hello'\n")
        environment = tree.register()
    base = read_stored(here, image_from_environment(here, environment, Path(sys.executable)).object)
    model = a_model(here)
    push_image(
        sending(client, place_in(registry, "models/python:v1")), model_image(here, model, base)
    )
    code = """
import hashlib, os
for top, _, names in os.walk("/models"):
    for name in names:
        path = os.path.join(top, name)
        print(hashlib.sha256(open(path, "rb").read()).hexdigest(), os.path.relpath(path, "/models"))
"""
    name = f"{registry.host}/models/python"
    engine.client.pull(name, tag="v1")
    container = engine.client.create_container(
        f"{name}:v1",
        command=["-c", code],
        host_config=engine.client.create_host_config(network_mode="none"),
    )["Id"]
    try:
        engine.client.start(container)
        assert engine.client.wait(container)["StatusCode"] == 0, engine.client.logs(container)
        lines = engine.client.logs(container, stderr=False).decode().splitlines()
    finally:
        engine.client.remove_container(container, force=True)

    found = {path: Sha256(f"sha256:{digest}") for digest, path in (each.split() for each in lines)}
    assert found == {file.path: here.sha256_of(file.blake3) for file in here.files(model)}
