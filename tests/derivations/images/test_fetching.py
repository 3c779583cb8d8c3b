"""Several files at a time: in order, and all ended by the first failure."""

import threading
from collections.abc import Callable

import pytest

from dis_derivations.images.fetching import write_all
from dis_derivations.sources.source import WantedFile
from dis_store.errors import BuildError, InterruptedBuildError

FILES = [WantedFile(str(number)) for number in range(8)]


@pytest.mark.parametrize("at_once", [1, 3, 20])
def test_what_was_written_comes_in_the_order_of_the_files(at_once: int) -> None:
    counted: list[int] = []

    def write(file: WantedFile, count: Callable[[int], None]) -> str:
        count(int(file.path))
        return file.path

    assert write_all(write, FILES, at_once, counted.append) == [file.path for file in FILES]
    assert sum(counted) == sum(range(8))


def test_the_first_failure_ends_what_others_do() -> None:
    ended: list[str] = []
    failed = threading.Event()

    def write(file: WantedFile, count: Callable[[int], None]) -> None:
        if file.path == "1":
            failed.set()
            raise BuildError("the first failure")
        failed.wait(60)
        try:
            while True:
                count(1)
        except InterruptedBuildError:
            ended.append(file.path)
            raise

    with pytest.raises(BuildError, match="the first failure"):
        write_all(write, FILES, 3, lambda _: None)
    assert "1" not in ended
    assert ended


def test_an_interruption_is_heard_by_all() -> None:
    def write(file: WantedFile, count: Callable[[int], None]) -> None:
        while True:
            count(1)

    def interrupted(_amount: int) -> None:
        raise InterruptedBuildError("the user interrupted")

    with pytest.raises(InterruptedBuildError, match="the user"):
        write_all(write, FILES, 4, interrupted)
