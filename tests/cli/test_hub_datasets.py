"""Prompts that are a file of a repository on a hub."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import Dis
from hub_server import Hub, Served
from served_models import TOKEN, serving
from tiny_runs import write_manifest

NAME = "org/prompts"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(tmp_path / "hf", monkeypatch) as running:
        yield running


@pytest.fixture
def manifest(tmp_path: Path, hub: Hub) -> Path:
    path = write_manifest(tmp_path / "place")
    prompts = (tmp_path / "place/prompts.txt").read_bytes()
    hub.add(NAME, {"data/all.txt": Served(prompts, lfs=False)}, token=TOKEN)
    return path


def source(**more: str) -> tuple[str, str]:
    named = {"type": "huggingface", "repo": NAME, "revision": "main", **more}
    return "--set", f"inference.dataset.source={json.dumps(named)}"


def requests(dis: Dis, manifest: Path, *argv: str) -> Any:
    outcome = dis("realize", f"{manifest}#requests", "--json", *argv)
    assert outcome.code == 0, outcome.err
    return outcome.document["outputs"]["out"]["digest"]


def test_they_are_locked_by_commit_and_are_the_same_as_from_a_directory(
    dis: Dis, hub: Hub, manifest: Path, tmp_path: Path
) -> None:
    from_hub = requests(dis, manifest, *source(path="data/all.txt"))
    lock = json.loads((tmp_path / "place/tiny.lock.json").read_bytes())
    commit = hub.repositories[NAME].refs["main"]
    assert lock["sources"]["inference.prompt_dataset"] == {"commit": commit}
    (file,) = [each for each in lock["artifacts"] if each["name"] == "inference.prompt_dataset"]
    # What the file is called there is part of no identity.
    assert file["path"] == "dataset.txt"
    assert file["retrieval"]["path"] == "data/all.txt"
    assert requests(dis, manifest) == from_hub


def test_a_commit_that_moved_is_told_and_taken_when_it_is_asked_for(
    dis: Dis, hub: Hub, manifest: Path
) -> None:
    named = source(path="data/all.txt")
    requests(dis, manifest, *named)
    assert dis("lock", manifest, "--check", *named).code == 0
    hub.add(NAME, {"data/all.txt": Served(b"a cab\nabba\nbabe\n", lfs=False)}, token=TOKEN)
    told = dis("lock", manifest, "--check", *named)
    assert told.code == 1
    assert "inference.prompt_dataset" in told.out
    assert dis("lock", manifest, "--update", "inference.prompt_dataset", *named).code == 0
    assert dis("lock", manifest, "--check", *named).code == 0


def test_without_the_name_of_the_file_it_is_asked_for(dis: Dis, manifest: Path) -> None:
    outcome = dis("lock", manifest, *source())
    outcome.check_one_block()
    assert outcome.code == 5
    assert f"which file of {NAME}" in outcome.err
    assert "--set inference.dataset.source.path=PATH" in outcome.err


def test_a_file_that_is_not_there_is_named(dis: Dis, manifest: Path) -> None:
    outcome = dis("lock", manifest, *source(path="data/none.txt"))
    outcome.check_one_block()
    assert outcome.code == 5
    assert "data/none.txt" in outcome.err


def test_a_dry_run_says_what_would_be_downloaded(dis: Dis, manifest: Path) -> None:
    outcome = dis("realize", manifest, "--dry-run", *source(path="data/all.txt"))
    assert outcome.code == 0, outcome.err
    assert f"from data/all.txt of {NAME}" in outcome.out
