"""A store in which something was built."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from built_store import Built, build
from dis_store import Store
from run_shelf import make_writable


@pytest.fixture
def built(tmp_path: Path) -> Iterator[Built]:
    with Store.open(tmp_path / "store") as store:
        yield build(store)
    make_writable(tmp_path / "store")
