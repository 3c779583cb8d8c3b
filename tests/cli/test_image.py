"""`dis image`, and what `dis gc` says of images in Docker, through the command and a real engine."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import ROOT, Outcome, call
from dis_derivations.images.docker_engine import DockerEngine
from docker_engine import docker_engine
from images import Json, LayoutMaker, tar_of

QUICKSTART = ROOT / "configs/quickstart.json"
FIELD = "runtime.execution.vllm_image"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with docker_engine(tmp_path_factory.mktemp("d")) as found:
        yield found


@pytest.fixture
def docker(engine: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DOCKER_HOST", engine)
    return engine


@pytest.fixture
def no_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")


def dis(tmp_path: Path, *words: str) -> Outcome:
    return call(["--store", str(tmp_path / "store"), *words])


@pytest.fixture
def layout(tmp_path: Path) -> LayoutMaker:
    return LayoutMaker(tmp_path / "layout")


@pytest.fixture
def image(tmp_path: Path, layout: LayoutMaker) -> Json:
    """Return the descriptor of an image that the store has."""
    content = tmp_path.name.encode()
    run = {"Entrypoint": ["/bin/it"], "Cmd": ["\x1b[31mred"], "User": "1:1"}
    found = layout.image([tar_of({"a": content}), tar_of({"b": b"b"})], config=run)
    layout.finish(found)
    realised = dis(tmp_path, "realize", f"{config(tmp_path, found, layout)}#image")
    assert realised.code == 0, realised.err
    return found


def config(tmp_path: Path, image: Json, layout: LayoutMaker) -> Path:
    path = tmp_path / "work/manifest.json"
    path.parent.mkdir(exist_ok=True)
    execution = {
        "vllm_image": f"localhost/engine@{image['digest']}",
        "vllm_image_path": str(layout.directory),
    }
    document = {
        "x_base_manifest": str(QUICKSTART),
        "runtime": {"execution": execution},
        "artifacts": {"lockfile": str(tmp_path / "lock.json")},
    }
    path.write_text(json.dumps(document))
    return path


def only_object(tmp_path: Path) -> str:
    (found,) = dis(tmp_path, "image", "ls", "--json").document["images"]
    return str(found["object"])


def test_a_store_without_images_says_so(tmp_path: Path) -> None:
    assert dis(tmp_path, "store", "info").code in (0, 2)
    (tmp_path / "file").write_text("x")
    dis(tmp_path, "store", "add", str(tmp_path / "file"))
    assert dis(tmp_path, "image", "ls").out == "there are no images in the store\n"


def test_images_are_listed_and_described_without_an_engine(
    tmp_path: Path, image: Json, no_docker: None
) -> None:
    listed = dis(tmp_path, "image", "ls").out.splitlines()
    assert listed[0].split() == ["OBJECT", "MANIFEST", "PLATFORM", "LAYERS", "SIZE"]
    assert image["digest"][:19] in listed[1]
    described = dis(tmp_path, "image", "inspect", only_object(tmp_path), "--json").document
    assert described["manifest"] == image["digest"]
    assert (described["entrypoint"], described["user"]) == (["/bin/it"], "1:1")
    assert [layer["size"] for layer in described["layers"]]


def test_what_an_image_says_of_itself_cannot_steer_a_terminal(tmp_path: Path, image: Json) -> None:
    text = dis(tmp_path, "image", "inspect", only_object(tmp_path)).out
    assert "\x1b" not in text
    assert "/bin/it" in text


def test_what_is_no_image_is_refused(tmp_path: Path, image: Json) -> None:
    (tmp_path / "file").write_text("x")
    added = dis(tmp_path, "store", "add", str(tmp_path / "file"))
    outcome = dis(tmp_path, "image", "inspect", Path(added.out.strip()).name)
    outcome.check_one_block()
    assert outcome.code == 2
    assert "there is no image in the object" in outcome.err


def test_loading_without_an_engine_is_the_machines_fault(
    tmp_path: Path, image: Json, no_docker: None
) -> None:
    outcome = dis(tmp_path, "image", "load", only_object(tmp_path))
    outcome.check_one_block()
    assert outcome.code == 5
    assert "no Docker engine answers" in outcome.err


def test_an_image_is_loaded_and_leaves_docker_when_its_object_is_gone(
    tmp_path: Path, image: Json, layout: LayoutMaker, docker: str
) -> None:
    name = only_object(tmp_path)
    loaded = dis(tmp_path, "image", "load", name, "--json")
    assert loaded.code == 0, loaded.err
    config_digest = json.loads(layout.path(image["digest"]).read_bytes())["config"]["digest"]
    assert loaded.document["docker_id"] == config_digest

    planned = dis(tmp_path, "gc", "--dry-run", "--docker")
    assert f"image {config_digest} is in Docker still" in planned.out
    first = dis(tmp_path, "gc", "--json")
    assert [each["removed"] for each in first.document["docker_images"]] == [False]
    assert "dis gc --docker removes it" in dis(tmp_path, "gc").out
    removed = dis(tmp_path, "gc", "--docker")
    assert removed.code == 0, removed.err
    assert f"image {config_digest} removed from Docker" in removed.out
    assert dis(tmp_path, "gc", "--json").document["docker_images"] == []


def test_a_container_that_a_killed_dis_left_goes_with_its_image(
    tmp_path: Path, image: Json, docker: str
) -> None:
    loaded = dis(tmp_path, "image", "load", only_object(tmp_path), "--json").document
    code = "from dis_derivations.images import leftover_containers as left; print(left.labels())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    labels = ast.literal_eval(said.stdout)
    with DockerEngine.connect() as engine:
        left = engine.client.create_container(loaded["docker_id"], command=["x"], labels=labels)[
            "Id"
        ]
        kept = dis(tmp_path, "gc", "--json")
        assert kept.document["docker_containers"] == []
        removed = dis(tmp_path, "gc", "--docker", "--json")
        assert removed.document["docker_containers"] == [left]
        assert [each["removed"] for each in removed.document["docker_images"]] == [True]
        assert engine.client.containers(all=True) == []


def test_a_collection_needs_an_engine_only_to_remove_something(
    tmp_path: Path, image: Json, docker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dis(tmp_path, "image", "load", only_object(tmp_path)).code == 0
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    assert dis(tmp_path, "gc").code == 0
    outcome = dis(tmp_path, "gc", "--docker")
    outcome.check_one_block()
    assert outcome.code == 5
    monkeypatch.setenv("DOCKER_HOST", docker)
    assert dis(tmp_path, "gc", "--docker").code == 0


def test_an_environment_becomes_an_image_that_a_manifest_can_name(
    tmp_path: Path, docker: str
) -> None:
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment/hello.py").write_text("print('hello')\n")
    added = dis(tmp_path, "store", "add", str(tmp_path / "environment"))
    name = Path(added.out.strip()).name
    outcomes = [
        dis(tmp_path, "image", "from-environment", name, "--name", "engine", "--json")
        for _ in range(2)
    ]
    assert outcomes[0].code == 0, outcomes[0].err
    assert outcomes[0].document == outcomes[1].document
    made = outcomes[0].document
    assert (
        dis(tmp_path, "image", "inspect", "engine", "--json").document["manifest"]
        == (made["manifest"])
    )
    assert dis(tmp_path, "image", "load", "engine").out.strip() == made["config"]
    sets = [
        f"{FIELD}=localhost/python@{made['manifest']}",
        f"{FIELD}_path={made['path']}",
        f"artifacts.lockfile={tmp_path}/lock.json",
    ]
    words = [word for each in sets for word in ("--set", each)]
    realised = dis(tmp_path, "realize", f"{QUICKSTART}#image", *words)
    assert realised.code == 0, realised.err
    assert Path(realised.out.strip()).name == made["object"]


def test_a_name_that_cannot_be_one_is_refused_before_the_work(tmp_path: Path) -> None:
    outcome = dis(tmp_path, "image", "from-environment", "a" * 64, "--name", "../x")
    outcome.check_one_block()
    assert outcome.code == 2
    assert not (tmp_path / "store/docker").exists()


def test_a_module_of_no_docker_is_loaded_for_what_needs_none(tmp_path: Path, image: Json) -> None:
    import subprocess
    import sys

    code = (
        "import sys; from dis_command.main import run; "
        f"run(['--store', {str(tmp_path / 'store')!r}, 'image', 'ls']); "
        "run(['--store', sys.argv[1], 'gc']); print('docker' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
    )
    assert done.stdout.splitlines()[-1] == "False"
