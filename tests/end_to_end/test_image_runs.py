"""Runs in the image of their manifest, through the command and a real Docker: the same bits as outside, or why not."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docker_engine import docker_engine
from tiny_runs import write_manifest

CAPTURE = {
    "tokens": True,
    "logits": {"enabled": True, "capture_prefill": True, "capture_decode": True},
    "engine_trace": {"enabled": True},
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with docker_engine(tmp_path_factory.mktemp("d")) as found:
        yield found


class Place:
    """A manifest of the mock engine that names an image, which an environment of one module was made into."""

    def __init__(self, directory: Path, dis: Any, address: str) -> None:
        self.dis = dis.having(extra={"DOCKER_HOST": address})
        self.directory = directory
        package = directory / "environment"
        package.mkdir(parents=True)
        (package / "hello.py").write_text("WORD = 'hello'\n", "utf-8")
        added = Path(dis("store", "add", "-q", package).stdout.strip()).name
        made = dis("image", "from-environment", "-q", added, "--name", "engine").stdout.split()
        self.layout = Path(made[1])
        self.image = f"localhost/python@{made[0]}"
        self.config = self.manifest("online_allowed")

    def manifest(self, policy: str, backend: str = "mock") -> Path:
        path = write_manifest(self.directory / f"{backend}-{policy}", capture=CAPTURE)
        document = json.loads(path.read_text("utf-8"))
        document["runtime"] |= {
            "network_policy": policy,
            "execution": {
                "backend": backend,
                "vllm_image": self.image,
                "vllm_image_path": str(self.layout),
            },
        }
        document["vllm"]["engine_args"]["max_model_len"] = 64
        path.write_text(json.dumps(document), "utf-8")
        return path

    def store(self, name: str) -> Any:
        """Return the command with a store of its own."""
        return self.dis.having(store=self.directory / name)

    def containers(self) -> list[Any]:
        from dis_derivations.images.docker_engine import DockerEngine

        with DockerEngine.connect(self.dis.extra) as engine:
            return list(engine.client.containers(all=True))


@pytest.fixture(scope="module")
def place(
    command_in: Callable[[Path], Any], tmp_path_factory: pytest.TempPathFactory, address: str
) -> Place:
    directory = tmp_path_factory.mktemp("place")
    return Place(directory / "work", command_in(directory), address)


def test_a_run_in_the_image_has_the_bundle_of_the_run_outside(place: Place) -> None:
    inside, outside = place.store("inside"), place.store("outside")
    made = inside("realize", place.config, "--in", "image", "--name", "in", "--json").json
    other = outside("realize", place.config, "--in", "environment", "--json").json
    assert made["outputs"]["bundle"]["digest"] == other["outputs"]["bundle"]["digest"]
    assert not made["cached"]
    logs = [path.read_text("utf-8") for path in (inside.store / "objects").rglob("build.log")]
    assert [text for text in logs if "the worker runs in a container of the image sha256:" in text]
    assert place.containers() == []


def test_a_run_outside_is_rebuilt_in_the_image_with_equal_bits(place: Place) -> None:
    dis = place.store("rebuilt")
    dis("realize", place.config)
    again = dis("realize", place.config, "--in", "image", "--rebuild", "--json").json
    assert (again["reproductions"]["builds"], again["reproductions"]["identical"]) == (2, 2)
    assert again["rebuilds"][0]["identical"]


def test_a_manifest_without_network_runs_in_the_image(place: Place) -> None:
    config = place.manifest("offline_required")
    made = place.store("offline")("realize", config, "--in", "image", "--json").json
    outside = place.store("offline-outside")("realize", config, "--json").json
    assert made["outputs"]["bundle"]["digest"] == outside["outputs"]["bundle"]["digest"]
    objects = place.directory / "offline/objects"
    records = [json.loads(path.read_bytes()) for path in objects.rglob("network.json")]
    assert "a container that has none" in {each["enforced_by"] for each in records}
    assert {each["attempts"] for each in records} == {0}


def test_an_engine_of_its_own_runs_in_the_image_unless_it_is_told_otherwise(place: Place) -> None:
    config = place.manifest("online_allowed", "vllm")
    none = place.dis.having(
        store=place.directory / "none", extra={"DOCKER_HOST": f"unix://{place.directory}/none"}
    )
    finished = none("realize", config, expect=5)
    assert "is to run in the image of the manifest, and no Docker engine answers" in finished.stderr
    assert "--in environment" in finished.stderr
    assert not list((place.directory / "none/objects").rglob("closure.json"))
    finished = none("realize", config, "--in", "environment", expect=5)
    assert "it is not known where vllm is installed" in finished.stderr
    # There is no vLLM in this image, which its worker says.
    finished = place.store("no-vllm")("realize", config, expect=3)
    assert "No module named 'vllm'" in finished.stderr
    assert place.containers() == []


def test_the_mock_engine_needs_no_docker_unless_it_is_asked_for(place: Place) -> None:
    none = {"DOCKER_HOST": f"unix://{place.directory}/none"}
    dis = place.dis.having(store=place.directory / "no-docker", extra=none)
    dis("realize", place.config)
    assert "no Docker engine answers" in (
        dis("realize", place.config, "--in", "image", "--rebuild", expect=5).stderr
    )


@pytest.mark.parametrize("backend", ["reference", "openai_compatible"])
def test_an_engine_that_no_image_holds_is_refused(place: Place, backend: str) -> None:
    options = ("--set", f"runtime.execution.backend={backend}", "--in", "image")
    server = ("--set", "runtime.execution.base_url=http://127.0.0.1:9/v1")
    plain = ("--set", 'capture={"tokens":true}')
    finished = place.store("refused")("realize", place.config, *options, *server, *plain, expect=5)
    assert f"the engine {backend} does not run in an image" in finished.stderr


def test_a_manifest_without_an_image_has_none_to_run_in(dis: Any, tmp_path: Path) -> None:
    config = write_manifest(tmp_path / "tiny")
    options = ("--set", "runtime.execution.backend=mock", "--in", "image")
    finished = dis("realize", config, *options, expect=5)
    assert "there is no image to run in" in finished.stderr


def test_the_lock_knows_the_interpreter_of_an_image_that_dis_made(place: Place) -> None:
    place.store("locking")("lock", place.config)
    lock = json.loads(place.config.with_suffix(".lock.json").read_text("utf-8"))
    told = json.loads(lock["sources"]["runtime.image"]["interpreter"])
    assert told["python"].startswith("cpython 3.")
    assert set(told) == {"python", "libc", "machine"}


def test_a_killed_run_leaves_no_container(place: Place) -> None:
    dis = place.store("killed")
    many = ("--set", "inference.n_prompts=1", "--set", "vllm.engine_args.max_model_len=1000000")
    long = ("--set", "inference.request_template.sampling.max_tokens=900000")
    process = dis.start("realize", place.config, "--in", "image", *many, *long)
    wait_for(lambda: [each for each in place.containers() if each["State"] == "running"], process)
    process.kill()
    process.communicate()
    wait_for(lambda: not place.containers())


def wait_for(
    condition: Callable[[], object], process: "subprocess.Popen[str] | None" = None
) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "it never came"
        if process is not None and process.poll() is not None:
            raise AssertionError(process.communicate())
        time.sleep(0.05)
