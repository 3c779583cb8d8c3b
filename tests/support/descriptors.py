"""What a process has open: what opens something must close it, however it ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def open_files() -> set[str]:
    """Return what this process has open, by descriptor, the look itself aside."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(f"{entry.name} {os.readlink(entry)}")  # noqa: PTH115 - no path, perhaps
    return found


@contextmanager
def nothing_left_open() -> Iterator[None]:
    """Fail if a block leaves something open that was not open before."""
    before = open_files()
    yield
    # What others forgot may be closed meanwhile.
    assert open_files() <= before
