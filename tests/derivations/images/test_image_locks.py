"""Images in manifests: locked, compiled, realised, and noticed when they are others."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import ROOT, Outcome, call
from dis_derivations.builders.engine_opening import container_source
from dis_derivations.graph.compilation import compile_graph
from dis_derivations.images.stored_image import read_stored
from dis_derivations.lock.document import Lock
from dis_derivations.lock.resolution import resolve_lock
from dis_derivations.lock.staleness import stale_artifacts
from dis_derivations.manifest.loading import LoadedManifest, load_manifest
from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import IntegrityError
from images import Json, LayoutMaker, named, sha256, tar_of

QUICKSTART = ROOT / "configs/quickstart.json"
FIELD = "runtime.execution.vllm_image"
LAYERS = [tar_of({"a": b"hello"}), tar_of({"b": b"world"})]


@pytest.fixture
def layout(tmp_path: Path) -> LayoutMaker:
    return LayoutMaker(tmp_path / "layout")


@pytest.fixture
def image(layout: LayoutMaker) -> Json:
    found = layout.image(LAYERS, annotations=named("v1"))
    layout.finish(found)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


def settings(layout: LayoutMaker, name: str) -> list[str]:
    return [f"{FIELD}={name}", f"{FIELD}_path={layout.directory}"]


def load(layout: LayoutMaker, name: str) -> LoadedManifest:
    return load_manifest(QUICKSTART, settings(layout, name))


def pin(image: Json) -> str:
    return f"localhost/engine@{image['digest']}"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "work/manifest.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"x_base_manifest": str(QUICKSTART)}))
    return path


def dis(tmp_path: Path, *words: str) -> Outcome:
    return call(["--store", str(tmp_path / "store"), *words])


def sets(layout: LayoutMaker, name: str, lock: Path) -> list[str]:
    overrides = [*settings(layout, name), f"artifacts.lockfile={lock}"]
    return [word for override in overrides for word in ("--set", override)]


def test_an_image_is_locked_file_by_file(layout: LayoutMaker, image: Json, store: Store) -> None:
    lock = resolve_lock(load(layout, pin(image)), store, previous=None)
    files = {file.path: str(file.digest) for file in lock.files_of("runtime.image")}
    blobs = {path.removeprefix("blobs/sha256/") for path in files if path.startswith("blobs/")}
    assert {f"sha256:{name}" for name in blobs} <= set(files.values())
    assert set(files) - {f"blobs/sha256/{name}" for name in blobs} == {"oci-layout", "index.json"}
    assert len(blobs) == 4
    assert lock.sources["runtime.image"] == {
        "digest": image["digest"],
        "manifest": image["digest"],
        "config": json.loads(layout.path(image["digest"]).read_bytes())["config"]["digest"],
        "platform": "linux/amd64",
    }


def test_what_the_manifest_publishes_makes_the_same_lock_unread(
    layout: LayoutMaker, image: Json, store: Store
) -> None:
    loaded = load(layout, pin(image))
    read = resolve_lock(loaded, store, previous=None)
    published = resolve_lock(loaded, store, previous=None, fetch=False)
    assert published.lock_id == read.lock_id
    sources = {file.path: file.digest_source for file in published.files_of("runtime.image")}
    assert sources["index.json"] == "computed"
    layers = json.loads(layout.path(image["digest"]).read_bytes())["layers"]
    assert {sources[f"blobs/sha256/{each['digest'][7:]}"] for each in layers} == {"published"}


def test_a_tag_becomes_the_digest_that_it_names_now(
    layout: LayoutMaker, image: Json, store: Store
) -> None:
    lock = resolve_lock(load(layout, "localhost/engine:v1"), store, previous=None)
    assert lock.sources["runtime.image"]["digest"] == image["digest"]
    assert lock.files_of("runtime.image")[0].retrieval["revision"] == "v1"
    assert Lock.decode(lock.encode(), name="it") == lock


def test_the_image_is_a_target_and_a_part_of_the_closure(
    layout: LayoutMaker, image: Json, store: Store
) -> None:
    loaded = load(layout, pin(image))
    graph = compile_graph(loaded, resolve_lock(loaded, store, previous=None))
    derivations = {name: graph.derivations[digest] for name, digest in graph.targets.items()}
    assert derivations["closure"].inputs["image"].derivation == graph.targets["image"]
    assert derivations["image"].fixed_files is not None
    assert "image" not in derivations["requests"].inputs


def test_a_manifest_without_an_image_has_the_graph_that_it_always_had(
    layout: LayoutMaker, image: Json, store: Store
) -> None:
    with_image, without = load(layout, pin(image)), load_manifest(QUICKSTART)
    lock = resolve_lock(without, store, previous=None)
    graph = compile_graph(without, lock)
    assert "image" not in graph.targets
    other = compile_graph(with_image, resolve_lock(with_image, store, previous=lock))
    same = {name for name, digest in graph.targets.items() if other.targets[name] == digest}
    assert same == set(graph.targets) - {"closure", "generation", "run"}


def test_a_closure_refers_to_its_image(
    tmp_path: Path, layout: LayoutMaker, image: Json, config: Path
) -> None:
    words = sets(layout, pin(image), tmp_path / "lock.json")
    outcome = dis(tmp_path, "realize", f"{config}#closure", *words, "--json")
    assert outcome.code == 0, outcome.err
    closure = Digest(outcome.document["outputs"]["out"]["digest"])
    with Store.open(tmp_path / "store") as store:
        found = read_stored(store, closure)
        assert str(found.image.manifest.digest) == image["digest"]
        assert found.object in store.references(closure)
        assert read_stored(store, found.object) == found
        lines = {file.path for file in store.files(closure)}
    assert "image/index.json" in lines
    shown = dis(tmp_path, "show-derivation", f"{config}#closure", "-r", *words)
    assert {"weights", "tokenizer", "image"} <= {
        each["args"].get("kind") for each in shown.document.values()
    }


def test_nothing_runs_in_another_image_than_the_result_is_remembered_by(
    tmp_path: Path, layout: LayoutMaker, image: Json, config: Path
) -> None:
    words = sets(layout, pin(image), tmp_path / "lock.json")
    outcome = dis(tmp_path, "realize", f"{config}#closure", *words, "--json")
    closure = Digest(outcome.document["outputs"]["out"]["digest"])
    manifest = json.loads(layout.path(image["digest"]).read_bytes())
    with Store.open(tmp_path / "store") as store:
        config_digest, layer = manifest["config"]["digest"], manifest["layers"][0]["digest"]
        found = container_source(store, closure, None, {"image": config_digest})
        assert str(found.image.id) == config_digest
        with pytest.raises(IntegrityError, match="another one than the lock says"):
            container_source(store, closure, None, {"image": layer})


def test_a_tag_is_refused_by_realize_and_pinned_by_lock(
    tmp_path: Path, layout: LayoutMaker, image: Json, config: Path
) -> None:
    words = sets(layout, "localhost/engine:v1", tmp_path / "lock.json")
    refused = dis(tmp_path, "realize", f"{config}#image", *words)
    refused.check_one_block()
    assert refused.code == 2
    assert "names its image by a tag" in refused.err
    assert f"dis lock {config}" in refused.err
    assert not (tmp_path / "lock.json").exists()

    assert dis(tmp_path, "lock", str(config), *words).code == 0
    realised = dis(tmp_path, "realize", f"{config}#image", *words)
    assert realised.code == 0, realised.err


def test_a_tag_that_moved_is_found_and_followed_only_when_asked(
    tmp_path: Path, layout: LayoutMaker, image: Json, config: Path
) -> None:
    words = sets(layout, "localhost/engine:v1", tmp_path / "lock.json")
    assert dis(tmp_path, "lock", str(config), *words).code == 0
    assert dis(tmp_path, "lock", str(config), "--check", *words).code == 0
    moved = layout.image([LAYERS[0]], annotations=named("v1"))
    layout.finish(moved)
    checked = dis(tmp_path, "lock", str(config), "--check", *words)
    assert checked.code == 1
    assert moved["digest"] in checked.out

    def locked() -> str:
        lock = json.loads((tmp_path / "lock.json").read_bytes())
        return str(lock["sources"]["runtime.image"]["digest"])

    assert dis(tmp_path, "lock", str(config), *words).code == 0
    assert locked() == image["digest"]
    assert dis(tmp_path, "lock", str(config), "--update", "runtime.image", *words).code == 0
    assert locked() == moved["digest"]


def test_another_digest_in_the_manifest_makes_the_lock_stale_and_another_place_does_not(
    tmp_path: Path, layout: LayoutMaker, image: Json, store: Store
) -> None:
    lock = resolve_lock(load(layout, pin(image)), store, previous=None)
    elsewhere = load_manifest(QUICKSTART, [f"{FIELD}=example.org/mirror@{image['digest']}"])
    assert stale_artifacts(elsewhere, lock) == []
    other = load(layout, f"localhost/engine@{sha256(b'other')}")
    assert stale_artifacts(other, lock) == ["runtime.image"]
    assert stale_artifacts(load_manifest(QUICKSTART), lock) == ["runtime.image"]


def test_a_lock_of_another_digest_than_the_manifest_pins_is_stale(
    layout: LayoutMaker, image: Json, store: Store
) -> None:
    loaded = load(layout, pin(image))
    lock = resolve_lock(loaded, store, previous=None)
    other = {**lock.sources["runtime.image"], "digest": sha256(b"other")}
    forged = replace(lock, sources={"runtime.image": other})
    assert stale_artifacts(loaded, lock) == []
    assert stale_artifacts(loaded, forged) == ["runtime.image"]


def test_an_image_that_moved_to_another_directory_is_the_same_manifest(
    tmp_path: Path, layout: LayoutMaker, image: Json
) -> None:
    here = load(layout, pin(image))
    there = load_manifest(QUICKSTART, [f"{FIELD}={pin(image)}", f"{FIELD}_path=/elsewhere"])
    assert here.manifest_id == there.manifest_id
    assert here.manifest_id != load(layout, "localhost/engine:v1").manifest_id


def test_a_layer_that_the_store_has_is_not_looked_for_again(
    tmp_path: Path, layout: LayoutMaker, image: Json, config: Path
) -> None:
    words = sets(layout, pin(image), tmp_path / "lock.json")
    assert dis(tmp_path, "lock", str(config), *words).code == 0
    for layer in json.loads(layout.path(image["digest"]).read_bytes())["layers"]:
        layout.path(layer["digest"]).unlink()
    bigger = layout.image([*LAYERS, tar_of({"c": b"!"})])
    for layer in json.loads(layout.path(bigger["digest"]).read_bytes())["layers"][:2]:
        layout.path(layer["digest"]).write_bytes(b"not read")
    layout.finish(bigger)
    words = sets(layout, pin(bigger), tmp_path / "other.json")
    assert dis(tmp_path, "lock", str(config), "--no-fetch", *words).code == 5
    for layer in json.loads(layout.path(bigger["digest"]).read_bytes())["layers"][:2]:
        layout.path(layer["digest"]).write_bytes(b"\0" * layer["size"])
    realised = dis(tmp_path, "realize", f"{config}#image", *words, "--json")
    assert realised.code == 0, realised.err
    assert dis(tmp_path, "store", "verify", "--all").code == 0


def test_a_damaged_layer_is_refused_and_nothing_of_it_is_kept(
    tmp_path: Path, layout: LayoutMaker, image: Json, config: Path
) -> None:
    layer = json.loads(layout.path(image["digest"]).read_bytes())["layers"][0]
    layout.path(layer["digest"]).write_bytes(b"\0" * layer["size"])
    words = sets(layout, pin(image), tmp_path / "lock.json")
    outcome = dis(tmp_path, "lock", str(config), *words)
    outcome.check_one_block()
    assert outcome.code == 4
    assert layer["digest"] in outcome.err
    layout.image(LAYERS)
    assert dis(tmp_path, "lock", str(config), *words).code == 0


def test_a_lock_that_says_that_a_digest_leads_elsewhere_is_refused(
    tmp_path: Path, layout: LayoutMaker, image: Json, config: Path
) -> None:
    evil = layout.image([tar_of({"evil": b"!"})])
    layout.finish(image, evil)
    with Store.open(tmp_path / "other") as store:
        lock = resolve_lock(load(layout, pin(evil)), store, previous=None)
        good = resolve_lock(load(layout, pin(image)), store, previous=None)
    retrieval = good.files_of("runtime.image")[0].retrieval
    forged = replace(
        lock,
        artifacts=tuple(
            replace(file, retrieval=retrieval) if file.name == "runtime.image" else file
            for file in lock.artifacts
        ),
        sources={"runtime.image": {**lock.sources["runtime.image"], "digest": image["digest"]}},
    )
    (tmp_path / "lock.json").write_bytes(forged.encode())
    words = sets(layout, pin(image), tmp_path / "lock.json")
    outcome = dis(tmp_path, "realize", f"{config}#image", *words)
    outcome.check_one_block()
    assert outcome.code == 4
    assert "is no part of" in outcome.err


@pytest.mark.parametrize(
    "lies_about", ["the files", "the manifest", "the configuration", "all", "nothing"]
)
def test_a_lock_whose_files_are_of_an_image_that_the_store_has_already_is_refused(
    tmp_path: Path, layout: LayoutMaker, image: Json, config: Path, lies_about: str
) -> None:
    evil = layout.image([tar_of({"evil": b"!"})])
    layout.finish(image, evil)
    with Store.open(tmp_path / "store") as store:
        theirs = resolve_lock(load(layout, pin(evil)), store, previous=None)
        good = resolve_lock(load(layout, pin(image)), store, previous=None)
    says, stands = good.sources["runtime.image"], theirs.sources["runtime.image"]
    files = {
        "the files": [
            each
            for each in (*good.files_of("runtime.image"), *theirs.files_of("runtime.image"))
            if each.path != "index.json" or each in theirs.artifacts
        ]
    }.get(lies_about, theirs.files_of("runtime.image"))
    said = {
        "the manifest": {**stands, "digest": says["digest"], "manifest": says["manifest"]},
        "the configuration": {**stands, "digest": says["digest"], "config": says["config"]},
    }.get(lies_about, says)
    if lies_about == "nothing":
        said = {"digest": says["digest"]}
    retrieval = good.files_of("runtime.image")[0].retrieval
    distinct = {each.path: replace(each, retrieval=retrieval) for each in files}
    others = [each for each in good.artifacts if each.name != "runtime.image"]
    forged = replace(good, artifacts=(*others, *distinct.values()), sources={"runtime.image": said})
    (tmp_path / "lock.json").write_bytes(forged.encode())
    words = sets(layout, pin(image), tmp_path / "lock.json")
    for command in (
        ("realize", f"{config}#image"),
        ("realize", f"{config}#closure"),
        ("realize", f"{config}#closure", "--dry-run"),
        ("show-derivation", f"{config}#closure"),
    ):
        outcome = dis(tmp_path, *command, *words)
        outcome.check_one_block()
        assert outcome.code == 4
        assert "contradicts itself about the files of its image" in outcome.err


def test_an_image_that_is_nowhere_is_told_of_with_all_other_items(
    tmp_path: Path, layout: LayoutMaker, config: Path
) -> None:
    words = sets(layout, f"localhost/engine@{sha256(b'x')}", tmp_path / "lock.json")
    outcome = dis(tmp_path, "lock", str(config), *words, "--set", "metadata.name=other")
    outcome.check_one_block()
    assert outcome.code == 5
    assert "runtime.image" in outcome.err


def test_digest_bootstrap_puts_the_digest_in_the_place_of_the_tag(
    tmp_path: Path, layout: LayoutMaker, image: Json, config: Path
) -> None:
    document = json.loads(config.read_bytes())
    document["runtime"] = {
        "execution": {"vllm_image": "localhost/engine:v1", "vllm_image_path": "../layout"}
    }
    config.write_text(json.dumps(document))
    outcome = dis(tmp_path, "digest-bootstrap", str(config), "--output", str(tmp_path / "new.json"))
    assert outcome.code == 0, outcome.err
    execution = json.loads((tmp_path / "new.json").read_bytes())["runtime"]["execution"]
    assert execution == {"vllm_image": pin(image), "vllm_image_path": "layout"}
