"""Which containers are taken for those that a killed dis left, in a real Docker: never those of somebody else."""

import ast
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dis_derivations.images import leftover_containers
from dis_derivations.images.docker_engine import DockerEngine
from dis_derivations.images.leftover_containers import labels, remove_leftovers
from docker_engine import docker_engine
from images import tar_of


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerEngine]:
    with (
        docker_engine(tmp_path_factory.mktemp("d")) as address,
        DockerEngine.connect({"DOCKER_HOST": address}) as found,
    ):
        yield found


@pytest.fixture
def hours_later(monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 7200)


def image(engine: DockerEngine, name: str, said: Mapping[str, str]) -> str:
    changes = [f'LABEL {key}="{value}"' for key, value in said.items()]
    data = tar_of({"a": b"x"})
    engine.client.import_image_from_data(data, repository=name, changes=changes)
    return name


def container(engine: DockerEngine, of: str, said: Mapping[str, str] | None = None) -> str:
    return str(engine.client.create_container(of, ["x"], labels=said)["Id"])


def gone() -> dict[str, str]:
    """Return the labels of a process that is no more."""
    code = "from dis_derivations.images import leftover_containers as left; print(left.labels())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found: dict[str, str] = ast.literal_eval(said.stdout)
    return found


@pytest.mark.usefixtures("hours_later")
def test_a_container_of_an_image_that_has_our_labels_is_the_users(engine: DockerEngine) -> None:
    dead = gone()
    marked = {"dev.dis.container": "1"}
    users = [
        container(engine, image(engine, "marked", marked)),
        container(engine, image(engine, "stranger", {**marked, "dev.dis.owner": "x y 1 2"})),
        container(engine, image(engine, "copied", dead)),
    ]
    ours = [
        container(engine, "marked", dead),
        container(engine, "copied", gone()),
        container(engine, "marked", {**marked, "dev.dis.owner": "elsewhere pid:[1] 1 2"}),
    ]
    assert sorted(remove_leftovers(engine)) == sorted(ours)
    for each in users:
        engine.client.remove_container(each)


def test_a_process_that_proc_hides_is_alive(
    engine: DockerEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    left = container(engine, image(engine, "hidden", {}), labels())
    monkeypatch.setattr(leftover_containers, "_PROC", tmp_path)
    # As for a process of another user.
    monkeypatch.setattr(os, "kill", _refuse)
    assert remove_leftovers(engine) == ()
    monkeypatch.setattr(os, "kill", _miss)
    assert remove_leftovers(engine) == (left,)


def _refuse(_process: int, _signal: int) -> None:
    raise PermissionError


def _miss(_process: int, _signal: int) -> None:
    raise ProcessLookupError
