"""Servers of the real vLLM, and servers in containers of the real Docker.

In a container there is a program in the place of vLLM that loads no model, but in the long run: an image with vLLM has
3 GiB, and is written four times.
"""

import json
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from checkpoints import write_checkpoint
from dis_derivations.engines.openai_compatible.identity import UNPROVEN_WEIGHTS
from dis_derivations.serving.processes import identify
from docker_engine import docker_engine
from effort import in_stress_alone
from fake_vllm import servable_manifest, write_package
from vllm_environment import SMALL, vllm_python

slow = [pytest.mark.slow, pytest.mark.timeout(1200)]
in_long_run = [*in_stress_alone, pytest.mark.timeout(2400)]
# In a network of its own a container is reached; the engine of the other tests has none.
BRIDGE = "dis-test0"
MOCK = ("--set", "runtime.execution.backend=mock")
SERVER = "runtime.execution.backend=openai_compatible"


def asked(url: str, document: dict[str, Any] | None = None) -> Any:
    data = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(  # noqa: S310 - of this machine
        url, data, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - as above
        return json.loads(answer.read())


class TestReal:
    pytestmark = slow

    def test_a_run_on_a_server_finds_the_model_and_the_settings_of_its_manifest(
        self, dis: Any, tmp_path: Path
    ) -> None:
        capture = {"tokens": True, "logits": {"enabled": True, "capture_decode": True}}
        config = servable_manifest(tmp_path / "tiny", capture=capture)
        write_checkpoint(tmp_path / "tiny/model", SMALL)
        dis = dis.having(extra={"DIS_VLLM_PYTHON": str(vllm_python())})
        dis("lock", config)
        process = dis.start("serve", "start", config, "--tell-settings", "--json")
        stdout, stderr = process.communicate(timeout=1000)
        assert process.returncode == 0, stderr
        server = json.loads(stdout)
        try:
            self.use(dis, config, server, tmp_path / "run")
        finally:
            dis("serve", "kill", "tiny")
        assert dis("serve", "list", "--json").json == []
        assert identify(server["process"]) is None
        names = [each["name"] for each in dis("root", "list", "--json").json]
        assert not set(names) & set(server["roots"])

    def use(self, dis: Any, config: Path, server: dict[str, Any], place: Path) -> None:
        url = server["url"]
        answer = asked(
            f"{url}/completions", {"model": server["model"], "prompt": "abba", "max_tokens": 4}
        )
        assert answer["usage"]["completion_tokens"] == 4
        (listed,) = dis("serve", "list", "--json").json
        assert (listed["state"], listed["closure"]) == ("ready", server["closure"])
        sets = (
            SERVER,
            f"runtime.execution.base_url={url}",
            "runtime.network_policy=online_allowed",
        )
        dis("run", config, *(f"--set={each}" for each in sets), "--run-dir", place)
        bundle = json.loads((place / "bundle.json").read_bytes())
        told = bundle["engine"]["environment"]
        assert told["departures"] == [UNPROVEN_WEIGHTS]
        assert told["model"]["id"] == server["model"]
        assert bundle["capture"]["logits"] == "captured"


@pytest.fixture(scope="module")
def bridged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run an engine whose containers have a network, in which nothing but this machine is."""
    made = subprocess.run(
        ["ip", "link", "add", BRIDGE, "type", "bridge"], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("no bridge can be made here")
    try:
        for command in (f"addr add 172.31.255.1/24 dev {BRIDGE}", f"link set {BRIDGE} up"):
            subprocess.run(["ip", *command.split()], check=True)
        more = ("--bridge", BRIDGE)
        with docker_engine(tmp_path_factory.mktemp("d"), more=more) as address:
            yield address
    finally:
        subprocess.run(["ip", "link", "delete", BRIDGE], check=True)


class InImage:
    """A locked manifest that names an image of what a directory has."""

    def __init__(self, directory: Path, dis: Any, address: str, packages: Path) -> None:
        self.dis = dis.having(extra={"DOCKER_HOST": address})
        added = Path(dis("store", "add", "-q", packages).stdout.strip()).name
        # vLLM asks the machine for its processors, through a shell.
        programs = ("--program", "sh", "--program", "lscpu", "--name", "engine")
        made = dis("image", "from-environment", "-q", added, *programs).stdout.split()
        self.config = servable_manifest(directory / "work")
        write_checkpoint(directory / "work/model", SMALL)
        document = json.loads(self.config.read_text("utf-8"))
        document["runtime"]["execution"] |= {
            "vllm_image": f"localhost/python@{made[0]}",
            "vllm_image_path": made[1],
        }
        self.config.write_text(json.dumps(document), "utf-8")
        self.dis("lock", self.config)

    def containers(self) -> list[dict[str, Any]]:
        from dis_derivations.images.docker_engine import DockerEngine

        with DockerEngine.connect(self.dis.extra) as engine:
            return [
                engine.client.inspect_container(each["Id"])
                for each in engine.client.containers(all=True)
            ]


@pytest.fixture(scope="module")
def in_image(
    command_in: Callable[[Path], Any], tmp_path_factory: pytest.TempPathFactory, bridged: str
) -> InImage:
    directory = tmp_path_factory.mktemp("place")
    write_package(directory / "environment")
    return InImage(directory, command_in(directory), bridged, directory / "environment")


def test_a_server_in_a_container_of_the_pinned_image_is_reached_from_this_machine_alone(
    in_image: InImage,
) -> None:
    dis = in_image.dis
    server = dis("serve", "start", in_image.config, "--container-port", "8123", "--json").json
    try:
        (listed,) = dis("serve", "list", "--json").json
        assert (listed["state"], listed["process"]) == ("ready", None)
        (container,) = in_image.containers()
        assert container["Name"] == f"/{listed['container']}"
        host = container["HostConfig"]
        assert host["ReadonlyRootfs"]
        assert host["CapDrop"] == ["ALL"]
        assert host["SecurityOpt"] == ["no-new-privileges"]
        assert container["Config"]["User"] == "65534:65534"
        port = server["url"].removesuffix("/v1").rpartition(":")[2]
        assert host["PortBindings"] == {"8123/tcp": [{"HostIp": "127.0.0.1", "HostPort": port}]}
        assert all(not mount["RW"] for mount in container["Mounts"] if mount["Type"] == "bind")
        seen = asked(f"{server['url'].removesuffix('/v1')}/seen")
        assert seen["variables"]["HOME"] == "/tmp"  # noqa: S108 - the container's own
        # A run in another container takes those away that killed processes left, and not this one.
        dis("realize", in_image.config, *MOCK, "--in", "image")
        dis("gc")
        assert [each["Id"] for each in in_image.containers()] == [container["Id"]]
        assert dis("serve", "list", "--json").json[0]["state"] == "ready"
    finally:
        dis("serve", "kill", "tiny")
    assert in_image.containers() == []
    assert not {*server["roots"]} & {each["name"] for each in dis("root", "list", "--json").json}
    log = dis.home / ".local/state/dis/servers/tiny/server.log"
    assert "fake vLLM reads" in log.read_text("utf-8")


def test_a_server_that_dies_in_its_container_leaves_its_log_alone(in_image: InImage) -> None:
    die = ("--set", "vllm.env.FAKE_VLLM=die")
    finished = in_image.dis("serve", "start", in_image.config, *die, expect=3)
    assert "the server tiny ended before it answered" in finished.stderr
    assert "there is no room for keys and values" in finished.stderr
    assert "  log: " in finished.stderr
    assert in_image.containers() == []
    assert in_image.dis("serve", "list", "--json").json == []


def test_without_docker_nothing_is_started(in_image: InImage, tmp_path: Path) -> None:
    none = in_image.dis.having(extra={"DOCKER_HOST": f"unix://{tmp_path}/none"})
    finished = none("serve", "start", in_image.config, expect=5)
    assert "no Docker engine answers" in finished.stderr
    assert none("serve", "list", "--json").json == []


def test_a_container_of_a_docker_that_does_not_answer_is_neither_gone_nor_stopped(
    in_image: InImage, tmp_path: Path
) -> None:
    in_image.dis("serve", "start", in_image.config, "--no-wait")
    try:
        none = in_image.dis.having(extra={"DOCKER_HOST": f"unix://{tmp_path}/none"})
        assert none("serve", "list", "--json").json[0]["state"] == "unknown"
        none("serve", "kill", "tiny", expect=5)
        assert len(in_image.containers()) == 1
    finally:
        in_image.dis("serve", "kill", "tiny")


class TestRealInImage:
    """Some minutes, and 15 GB of disk."""

    pytestmark = in_long_run

    def test_the_real_vllm_serves_in_a_container_of_an_image_that_has_it(
        self, dis: Any, tmp_path: Path, bridged: str
    ) -> None:
        (packages,) = (vllm_python().parents[1] / "lib").glob("python3.*/site-packages")
        place = InImage(tmp_path, dis, bridged, packages)
        process = place.dis.start("serve", "start", place.config, "--tell-settings", "--json")
        stdout, stderr = process.communicate(timeout=1500)
        assert process.returncode == 0, stderr
        server = json.loads(stdout)
        try:
            asking = {"model": server["model"], "prompt": "abba", "max_tokens": 4}
            answer = asked(f"{server['url']}/completions", asking)
            assert answer["usage"]["completion_tokens"] == 4
            (container,) = place.containers()
            assert container["Name"] == f"/{server['container']}"
        finally:
            place.dis("serve", "kill", "tiny")
        assert place.containers() == []
