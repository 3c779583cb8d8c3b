"""Images and registries, by the command: closures with an image in them, and models that are sent as images."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import Outcome, call
from dis_store import Root, Store
from dis_store.digest import Digest
from images import LayoutMaker, tar_of
from real_registry import RealRegistry, running_registry
from stored_images import store_image
from tiny_runs import write_manifest


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the user a home of their own, without settings and passwords."""
    path = tmp_path / "home"
    path.mkdir()
    for name in [each for each in os.environ if each.startswith(("DIS_", "XDG_", "DOCKER_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(path))
    return path


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with a run, `first`, an image, `base`, and a closure that has the image, `engine`."""
    path = tmp_path_factory.mktemp("first")
    config = write_manifest(tmp_path_factory.mktemp("work"))
    ok(path / "store", "realize", config, "--name", "first", "-q")
    maker = LayoutMaker(path / "layout")
    run = {"Entrypoint": ["/bin/sleep"]}
    maker.finish(maker.image([tar_of({"bin/sleep": b"#!\n", "bin/ln": b"#!\n"})], config=run))
    with Store.open(path / "store") as opened:
        image = store_image(opened, maker)
        with opened.new_tree() as tree:
            tree.write_bytes("model/weights", b"numbers")
            tree.reference("image", image)
            opened.set_root("engine", Root(tree.register()))
        opened.set_root("base", Root(image))
    return path / "store"


def dis(store: Path, *arguments: object) -> Outcome:
    return call([*map(str, arguments), "--store", str(store)])


def ok(store: Path, *arguments: object) -> Outcome:
    outcome = dis(store, *arguments)
    assert outcome.code == 0, outcome.err
    return outcome


def test_the_image_of_a_closure_is_listed_and_pulled_by_name(
    registry: RealRegistry, store: Path, tmp_path: Path
) -> None:
    place = registry.reference("engine:one")
    ok(store, "push", "engine", place)

    parts = ok(store, "remote", "ls", place, "--json").document["parts"]
    listed = {each["name"]: each for each in parts}
    assert listed["image"]["kind"] == "oci-image"
    assert listed["image"]["object"] == listed["image-layout"]["object"]
    pulled = ok(tmp_path / "there", "pull", place, "--only", "image", "--json").document
    assert pulled["object"] == listed["image"]["object"]
    (image,) = ok(tmp_path / "there", "image", "ls", "--json").document["images"]
    assert image["manifest"] == listed["image"]["manifest"]


def test_the_model_of_a_run_is_sent_as_an_image(registry: RealRegistry, store: Path) -> None:
    place = registry.reference("models/tiny:v1")
    would = ok(store, "push", "first", place, "--as", "image", "--dry-run", "--json").document
    assert dis(store, "remote", "ls", place).code == 3
    text = ok(store, "push", "first", place, "--as", "image", "--dry-run").out

    pushed = ok(store, "push", "first", place, "--as", "image", "--json").document

    assert would == {**pushed, "dry_run": True}
    assert "files in" in text
    assert "would be sent" in text
    assert pushed["sent_bytes"] == pushed["bytes"] > 0
    assert pushed["reference"] == f"{place}@{pushed['digest']}"
    again = ok(store, "push", "first", place, "--as", "image", "--json").document
    assert again == {**pushed, "sent_bytes": 0}
    assert ok(store, "push", "first", place, "--as", "image").out.strip() == pushed["reference"]
    manifest = json.loads(registry.blob_path(pushed["digest"]).read_bytes())
    assert manifest["config"]["digest"] == pushed["image"]
    assert len(manifest["layers"]) == pushed["layers"] == pushed["files"]
    with Store.open(store) as opened:
        sizes = {
            file.path: file.size
            for digest in opened.objects()
            for file in opened.files(Digest(digest))
        }
    assert "config.json" in sizes
    assert sum(each["size"] for each in manifest["layers"]) > sizes["model.safetensors"]


def test_an_image_below_is_named_by_its_root(registry: RealRegistry, store: Path) -> None:
    place = registry.reference("models/based:v1")
    plain = ok(store, "push", "first", place, "--as", "image", "--json").document

    pushed = ok(store, "push", "first", place, "--as", "image", "--base", "base", "--json").document

    assert pushed["layers"] == plain["layers"] + 1
    assert pushed["sent_bytes"] < plain["sent_bytes"]
    config = json.loads(registry.blob_path(pushed["image"]).read_bytes())
    assert config["config"] == {"Entrypoint": ["/bin/sleep"]}
    # A closure that has an image will do as well.
    same = ok(store, "push", "first", place, "--as", "image", "--base", "engine", "--json").document
    assert same["digest"] == pushed["digest"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--as", "image", "--base", "nothing-of-this-name"), "nothing-of-this-name"),
        (("--as", "image", "--base", "first"), "no image"),
        (("--as", "image", "--parts"), "--parts"),
        (("--as", "image", "--outputs-only"), "--outputs-only"),
        (("--base", "base"), "--as image"),
        (("--as", "picture"), "picture"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_block(
    registry: RealRegistry, store: Path, arguments: tuple[str, ...], said: str
) -> None:
    outcome = dis(store, "push", "first", registry.reference("models/bad:v1"), *arguments)

    assert outcome.code == 2, outcome.err
    outcome.check_one_block()
    assert said in outcome.err


def test_a_name_that_deletes_in_layers_is_refused_and_nothing_is_sent(
    registry: RealRegistry, store: Path
) -> None:
    with Store.open(store) as opened, opened.new_tree() as tree:
        tree.write_bytes("a/.wh.model.safetensors", b"")
        digest = tree.register()
    place = registry.reference("models/evil:v1")

    outcome = dis(store, "push", digest, place, "--as", "image")

    assert outcome.code == 2
    outcome.check_one_block()
    assert ".wh.model.safetensors" in outcome.err
    assert dis(store, "remote", "ls", place).code == 3
