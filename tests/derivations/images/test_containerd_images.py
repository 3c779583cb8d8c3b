"""Images in a real Docker engine whose containerd keeps them: there an image is called by its manifest's digest.

Debian 12 has no such engine; the tests say so where they are skipped.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dis_derivations.images.container import ContainerCommand, run_in_image
from dis_derivations.images.docker_engine import DockerEngine
from dis_derivations.images.docker_loading import load_image
from dis_derivations.images.from_environment import image_from_environment
from dis_derivations.images.loaded_images import (
    LoadedImage,
    images_without_object,
    loaded_images,
    remove_from_docker,
)
from dis_derivations.images.source import ImageSource
from dis_derivations.images.stored_image import StoredImage, read_stored
from dis_derivations.sources.source import WantedFile
from dis_store import Store
from dis_store.digest import Sha256
from dis_store.errors import BuildError, IntegrityError
from docker_engine import docker_engine
from images import LayoutMaker, tar_of


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with docker_engine(tmp_path_factory.mktemp("d"), "containerd") as found:
        yield found


@pytest.fixture
def engine(address: str) -> Iterator[DockerEngine]:
    with DockerEngine.connect({"DOCKER_HOST": address}) as found:
        yield found


def stored(store: Store, path: Path, content: bytes, packing: str = "+gzip") -> StoredImage:
    layout = LayoutMaker(path)
    layout.finish(layout.image([tar_of({"a": content}), tar_of({"b": b"x"})], packing=packing))
    source = ImageSource("localhost/engine", layout.directory)
    with store.new_tree() as tree:
        source.fetch([WantedFile(each) for each in source.listing()], tree, lambda: None)
        return read_stored(store, tree.register())


@pytest.mark.parametrize("packing", ["", "+gzip", "+zstd"])
def test_an_image_is_called_by_its_manifest_and_sent_once(
    tmp_path: Path, engine: DockerEngine, packing: str
) -> None:
    with Store.open(tmp_path / "store") as store:
        image = stored(store, tmp_path / "layout", packing.encode(), packing)
        sent: list[int] = []
        for _ in range(2):
            name = load_image(store, engine, image, sent.append)
            assert name == image.image.manifest.digest
        assert sum(sent) == sum(blob.size for blob in image.image.content.blobs)
        assert loaded_images(store) == [LoadedImage(engine.id, name, image.object)]
    found = engine.client.inspect_image(name)
    assert found["RootFS"]["Layers"] == [str(each) for each in image.image.config.diff_ids]


def test_an_image_runs_and_its_container_is_compared(tmp_path: Path, engine: DockerEngine) -> None:
    with Store.open(tmp_path / "store") as store:
        with store.new_tree() as tree:
            tree.write_bytes("hello.py", b"print('hello')\n")
            environment = tree.register()
        made = image_from_environment(store, environment, Path(sys.executable))
        image = read_stored(store, made.object)
        command = [*image.image.config.entrypoint, "/dis/environment/hello.py"]
        found = run_in_image(store, engine, image, ContainerCommand(command))
    assert (found.exit_code, found.stdout) == (0, b"hello\n"), found.stderr


def test_an_engine_that_answers_with_another_image_is_not_believed(
    tmp_path: Path, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path / "store") as store:
        image = stored(store, tmp_path / "layout", b"real")
        other = load_image(store, engine, stored(store, tmp_path / "other", b"other"))
        inspect = engine.client.inspect_image
        monkeypatch.setattr(engine.client, "inspect_image", lambda _name: inspect(other))
        with pytest.raises(IntegrityError, match="another image than the one that is pinned"):
            load_image(store, engine, image)


def test_a_layer_that_is_not_that_of_the_configuration_never_runs(
    tmp_path: Path, engine: DockerEngine
) -> None:
    layout = LayoutMaker(tmp_path / "layout")
    evil = layout.blob(tar_of({"evil": b"!"}), "application/vnd.oci.image.layer.v1.tar")
    layout.finish(layout.image([tar_of({"a": b"good"})], change=lambda m: m.update(layers=[evil])))
    source = ImageSource("localhost/engine", layout.directory)
    with Store.open(tmp_path / "store") as store:
        with store.new_tree() as tree:
            source.fetch([WantedFile(each) for each in source.listing()], tree, lambda: None)
            image = read_stored(store, tree.register())
        with pytest.raises((BuildError, IntegrityError)):
            run_in_image(store, engine, image, ContainerCommand(["/evil"]))


def test_an_image_whose_object_is_gone_leaves_docker_unless_it_is_used(
    tmp_path: Path, engine: DockerEngine
) -> None:
    with Store.open(tmp_path / "store") as store:
        name: Sha256 = load_image(store, engine, stored(store, tmp_path / "layout", b"going"))
    container = engine.client.create_container(name, command=["/a"])
    with Store.open(tmp_path / "store") as store:
        store.collect_garbage()
        (left,) = images_without_object(store)
        kept = remove_from_docker(store, engine, [left])
        engine.client.remove_container(container["Id"])
        assert kept.removed == ()
        assert remove_from_docker(store, engine, [left]).removed == (left,)
        assert loaded_images(store) == []
