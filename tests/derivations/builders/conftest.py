"""A store and the manifest of a tiny model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dis_store import Store
from tiny_runs import write_manifest


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_manifest(tmp_path / "tiny")
