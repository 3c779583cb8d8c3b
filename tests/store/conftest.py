from collections.abc import Iterator
from pathlib import Path

import pytest

from dis_store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One store for all examples of a property, which only add to it."""
    with Store.open(tmp_path_factory.mktemp("shared") / "store") as opened:
        yield opened
