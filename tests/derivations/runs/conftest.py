"""A store with a made-up run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bundles import Answer, Run
from dis_store import Store
from dis_store.digest import Digest
from run_shelf import Shelf, make_writable


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as store:
        yield store
    make_writable(tmp_path / "store")


@pytest.fixture
def shelf(store: Store) -> Shelf:
    return Shelf(store)


@pytest.fixture
def example() -> Run:
    return Run(answers=(Answer("first", (5, 6), text="six"), Answer("second", (8,), text="eight")))


@pytest.fixture
def run(shelf: Shelf, example: Run) -> Digest:
    return shelf.add(example, "example.00000000")
