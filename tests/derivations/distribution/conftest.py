"""What tests of closures in registries share: a registry, a run, and two stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dis_derivations.registry.client import RegistryClient
from dis_store import Store
from real_registry import RealRegistry, running_registry
from tiny_runs import Built, build


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    """Run a registry; each test has repositories of its own in it."""
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """Return a run; no test changes its store."""
    path = tmp_path_factory.mktemp("built")
    with Store.open(path / "store") as store:
        yield build(path, store)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RegistryClient]:
    """Return who asks registries, with a home of their own."""
    with RegistryClient({"HOME": str(tmp_path)}) as opened:
        yield opened


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Store]:
    """Return the store that is pushed from."""
    with Store.open(tmp_path / "here") as store:
        yield store


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Store]:
    """Return the store that is pulled to."""
    with Store.open(tmp_path / "there") as store:
        yield store
