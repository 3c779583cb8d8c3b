"""Wheels in a directory, and environments made of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dis_derivations.environments.unpacking import WheelUnpacker
from dis_derivations.environments.wheel_contents import Wheel
from dis_store import Store
from dis_store.digest import Digest, Sha256
from wheels import use_index


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that pip takes for the only index there is."""
    use_index(monkeypatch, tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


def unpacked(store: Store, *wheels: Path, python: str = "3.11") -> Digest:
    """Unpack wheels into an object of the store."""
    with store.new_tree() as tree:
        unpacker = WheelUnpacker(tree, lambda _amount: None)
        for wheel in wheels:
            unpacker.add(Wheel(wheel, wheel.name, Sha256.of(wheel.read_bytes())))
        unpacker.finish(python)
        return tree.register()


@pytest.fixture
def unpack(store: Store) -> Callable[..., Path]:
    """Return what unpacks wheels and returns the environment's path."""
    return lambda *wheels, python="3.11": store.object_path(unpacked(store, *wheels, python=python))
