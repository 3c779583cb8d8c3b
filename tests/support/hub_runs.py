"""A hub with one model, and a manifest that takes it from there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import Dis
from hub_server import Hub, Served
from served_models import NAME, TOKEN, serving


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(tmp_path / "hf", monkeypatch) as running:
        yield running


@pytest.fixture
def manifest(dis: Dis, hub: Hub, tmp_path: Path) -> Path:
    """Return a manifest of the served model, at its branch `main`."""
    outcome = dis("init", "--model-id", NAME, "--output", "fox.json")
    assert outcome.code == 0, outcome.err
    assert "it can be realised as it is" in outcome.err
    return tmp_path / "fox.json"


def move_branch(hub: Hub, **files: bytes) -> str:
    """Add a commit in which some small files are others, and return it."""
    repository = hub.repositories[NAME]
    before = repository.commits[repository.refs["main"]]
    changed = {name: Served(data, lfs=False) for name, data in files.items()}
    return hub.add(NAME, {**before, **changed}, token=TOKEN)
