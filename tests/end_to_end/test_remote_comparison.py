"""Comparing runs that lie in a registry: what is needed is fetched, and nothing else."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkpoints import CheckpointShape, write_checkpoint
from command_line import Outcome, call
from dis_store import Store
from images import LayoutMaker, distribution, layer_of
from json_schema import faults
from real_registry import RealRegistry, running_registry
from run_shelf import make_writable
from stored_images import store_image
from tiny_runs import write_manifest

CAPTURE = {
    "tokens": True,
    "logits": {"enabled": True, "scope": "full", "dtype": "float32", "capture_decode": True},
}
SAMPLED = ("temperature=1.5", "seed=7")
SMALL = frozenset(
    ("bundle.json", "manifest.used.json", "lock.used.json", "tokens.json", "engine.json")
)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith(("DIS_", "XDG_", "DOCKER_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


class Machine:
    """A store, and the command that works with it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def dis(self, *arguments: object) -> Outcome:
        return call([*map(str, arguments), "--store", str(self.path)])

    def ok(self, *arguments: object) -> Outcome:
        outcome = self.dis(*arguments)
        assert outcome.code == 0, outcome.err
        return outcome


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory, registry: RealRegistry) -> Iterator[Machine]:
    """Return a machine that made four runs with logits, and pushed them, and the weights of two."""
    work = tmp_path_factory.mktemp("work")
    config = write_manifest(work, capture=CAPTURE)
    machine = Machine(tmp_path_factory.mktemp("maker") / "store")
    runs = {
        "first": (),
        "other": tuple(
            part
            for each in SAMPLED
            for part in ("--set", f"inference.request_template.sampling.{each}")
        ),
        "described": ("--set", "metadata.description=anew"),
    }
    for name, changes in runs.items():
        machine.ok("realize", config, "--name", name, "-q", *changes)
        machine.ok("push", name, registry.reference(f"runs:{name}"))
    tuned = write_manifest(tmp_path_factory.mktemp("tuned"), capture=CAPTURE)
    write_checkpoint(tuned.parent / "model", CheckpointShape(), seed=2)
    machine.ok("realize", tuned, "--name", "tuned", "-q")
    machine.ok("push", "tuned", registry.reference("runs:tuned"))
    for name in ("first", "tuned"):
        weights = machine.ok("inspect", name, "--json").document["inputs"]["weights"]
        machine.ok("root", "add", f"weights-{name}", weights)
        machine.ok("push", f"weights-{name}", registry.reference(f"weights:{name}"))
    yield machine
    make_writable(machine.path)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Machine]:
    """Return a machine that has nothing."""
    machine = Machine(tmp_path / "reader")
    machine.ok("list")
    yield machine
    make_writable(machine.path)


class Fetched:
    """What was asked of a registry since."""

    def __init__(self, registry: RealRegistry) -> None:
        self._registry = registry
        self._before = len(registry.requests())

    def blobs(self) -> set[str]:
        """Return the digests of the blobs that came."""
        lines = self._registry.requests()[self._before :]
        return {
            line.split("/blobs/")[1].split(" ")[0]
            for line in lines
            if line.startswith("GET ") and "/blobs/sha256:" in line and line.endswith(" 200")
        }


def layers_of(registry: RealRegistry, tag: str, repository: str = "runs") -> dict[str, str]:
    """Return the blobs of a closure with what they are called; trees have no name but their type."""
    tags = f"blobs/docker/registry/v2/repositories/{repository}/_manifests/tags"
    link = (registry.directory / tags / tag / "current/link").read_text("ascii")
    named = {}
    for child in json.loads(registry.blob_path(link).read_bytes())["manifests"]:
        manifest = json.loads(registry.blob_path(child["digest"]).read_bytes())
        for layer in manifest.get("layers", ()):
            title = layer.get("annotations", {}).get("org.opencontainers.image.title")
            named[layer["digest"]] = title or layer["mediaType"]
    return named


def names_of(
    registry: RealRegistry, blobs: set[str], *tags: str, repository: str = "runs"
) -> set[str]:
    """Return what those of the blobs are called that hold files."""
    named = {}
    for tag in tags:
        named.update(layers_of(registry, tag, repository))
    return {named[blob] for blob in blobs if not named[blob].startswith("application/")}


def test_a_run_that_the_store_has_is_compared_without_a_blob(
    registry: RealRegistry, maker: Machine
) -> None:
    fetched = Fetched(registry)

    outcome = maker.ok("diff", registry.reference("runs:first"), "first", "--json")

    assert outcome.document["bundles_identical"]
    assert fetched.blobs() == set()


def test_equal_captures_in_two_repositories_stay_there(
    registry: RealRegistry, maker: Machine, reader: Machine
) -> None:
    first, described = (registry.reference(f"runs:{name}") for name in ("first", "described"))
    fetched = Fetched(registry)

    outcome = reader.ok("diff", first, described)

    assert names_of(registry, fetched.blobs(), "first", "described") == SMALL
    assert "Results: THE SAME" in outcome.out
    assert "one file, by its digest; it was not fetched" in outcome.out
    document = reader.ok("diff", first, described, "--json").document
    assert document["logits"]["tensors"] is None
    schema = reader.ok("schema", "--diff").document
    assert faults(json.loads(json.dumps(document)), schema) == []


def test_an_archive_with_the_same_capture_needs_none_from_the_registry(
    registry: RealRegistry, maker: Machine, reader: Machine, tmp_path: Path
) -> None:
    archive = tmp_path / "first.tar.gz"
    maker.ok("bundle", "first", "--output", archive)
    fetched = Fetched(registry)

    outcome = reader.ok("diff", registry.reference("runs:first"), archive, "--json")

    assert outcome.document["observables"]["logits"] == "identical"
    assert outcome.document["logits"]["tensors"] > 0
    assert outcome.document["bundles_identical"]
    assert "logits.safetensors" not in names_of(registry, fetched.blobs(), "first")


def test_runs_that_differ_are_told_apart_without_their_weights(
    registry: RealRegistry, maker: Machine, reader: Machine
) -> None:
    first, other = (registry.reference(f"runs:{name}") for name in ("first", "other"))
    fetched = Fetched(registry)

    outcome = reader.dis("diff", first, other, "--json")

    assert outcome.code == 1
    here = maker.dis("diff", "first", "other", "--json").document
    assert outcome.document == here
    names = names_of(registry, fetched.blobs(), "first", "other")
    assert "logits.safetensors" in names
    assert "model.safetensors" not in names


def test_other_weights_are_named_by_file_and_fetched_by_hand(
    registry: RealRegistry, maker: Machine, reader: Machine
) -> None:
    first, tuned = (registry.reference(f"runs:{name}") for name in ("first", "tuned"))
    fetched = Fetched(registry)

    outcome = reader.dis("diff", first, tuned)

    assert outcome.code == 1
    assert "1. the weights differ" in outcome.out
    assert "model.safetensors" not in names_of(registry, fetched.blobs(), "first", "tuned")
    for place in (first, tuned):
        assert f"dis pull {place} --only weights" in outcome.err
        reader.ok("pull", place, "--only", "weights")
    assert "tensors" in reader.dis("diff", first, tuned).out.split("Why")[1]


def test_weights_in_a_registry_are_compared_by_tensor(
    registry: RealRegistry, maker: Machine, reader: Machine
) -> None:
    first, tuned = (registry.reference(f"weights:{name}") for name in ("first", "tuned"))
    fetched = Fetched(registry)

    assert reader.ok("diff", first, first, "--json").document["identical"]

    assert names_of(registry, fetched.blobs(), "first", repository="weights") == set()
    outcome = reader.dis("diff", first, tuned, "--json")
    assert outcome.code == 1
    here = maker.dis("diff", "weights-first", "weights-tuned", "--json").document
    assert outcome.document == here


def test_layers_of_images_in_a_registry_stay_there_and_are_said_to_be_absent(
    registry: RealRegistry, maker: Machine, reader: Machine, tmp_path: Path
) -> None:
    for version in ("2.10.0", "2.11.0"):
        layout = LayoutMaker(tmp_path / version)
        layout.finish(layout.image((layer_of([distribution("torch", version)]),)))
        with Store.open(maker.path) as store:
            digest = store_image(store, layout)
        maker.ok("root", "add", f"image-{version}", digest)
        maker.ok("push", f"image-{version}", registry.reference(f"images:{version}"))

    outcome = reader.dis(
        "diff", registry.reference("images:2.10.0"), registry.reference("images:2.11.0"), "--json"
    )

    assert outcome.code == 1, outcome.err
    document = outcome.document["image_packages"]
    assert document["packages"] == []
    assert document["unread"] == [f"layer 01 of {each} is not in the store" for each in "AB"]
    here = maker.dis("diff", "image-2.10.0", "image-2.11.0", "--json").document["image_packages"]
    assert [each["name"] for each in here["packages"]] == ["torch"]


def test_nothing_is_fetched_a_second_time_until_it_is_collected(
    registry: RealRegistry, maker: Machine, reader: Machine
) -> None:
    first, other = (registry.reference(f"runs:{name}") for name in ("first", "other"))
    before = Fetched(registry)
    reader.dis("diff", first, other)
    once = before.blobs()
    fetched = Fetched(registry)

    reader.dis("diff", first, other)

    again = fetched.blobs()
    assert names_of(registry, again, "first", "other") == set()
    assert len(again) < len(once)
    collected = reader.ok("gc", "--json").document
    assert len(collected["objects"]) >= len(SMALL)
    assert reader.ok("store", "verify", "--all").code == 0


def test_a_run_in_a_registry_can_be_shown_inspected_reported_and_graded(
    registry: RealRegistry, maker: Machine, reader: Machine
) -> None:
    place = registry.reference("runs:first")

    assert reader.ok("show", place).out == maker.ok("show", "first").out
    inspected = reader.ok("inspect", place, "--json").document
    assert inspected["path"] == place
    assert inspected["files"] == maker.ok("inspect", "first", "--json").document["files"]
    report = reader.ok("report", place, "--json").document
    assert report["evidence"] == maker.ok("report", "first", "--json").document["evidence"]
    assert reader.ok("verify", place, place, "--json").document["grade"] == "conformant"
    assert reader.ok("diff", "--matrix", place, place, "--json").document["clusters"] == [[0, 1]]


def test_changed_bytes_of_a_registry_are_refused(
    registry: RealRegistry, maker: Machine, reader: Machine, tmp_path: Path
) -> None:
    with running_registry(tmp_path / "evil") as evil:
        maker.ok("push", "first", evil.reference("runs:first"))
        for digest, name in layers_of(evil, "first").items():
            if name == "tokens.json":
                path = evil.blob_path(digest)
                path.write_bytes(path.read_bytes().replace(b"1", b"2"))

        outcome = reader.dis("diff", evil.reference("runs:first"), registry.reference("runs:other"))

    assert outcome.code == 4
    outcome.check_one_block()


@pytest.mark.parametrize("name", ["runs:missing", "nowhere:first"])
def test_a_run_that_is_not_in_the_registry_is_one_error(
    registry: RealRegistry, maker: Machine, reader: Machine, name: str
) -> None:
    outcome = reader.dis("diff", registry.reference(name), registry.reference("runs:first"))

    assert outcome.code not in {0, 1}
    outcome.check_one_block()


def test_other_commands_still_say_to_pull_first(registry: RealRegistry, reader: Machine) -> None:
    outcome = reader.dis("path-info", registry.reference("runs:first"))

    outcome.check_one_block()
    assert "dis pull" in outcome.err
