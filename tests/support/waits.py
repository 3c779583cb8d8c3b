"""What is waited for on the disk, and what has its name by then."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Wait:
    """One `fsync`: the inode, and which of the watched paths were there at that moment."""

    inode: int
    named: frozenset[Path]


def watch_waits(monkeypatch: pytest.MonkeyPatch, paths: Collection[Path]) -> list[Wait]:
    """Return the list that each `fsync` of this process is added to from now on.

    The process is taken for a new one, which does not know which directories are on the disk already.
    """
    waits: list[Wait] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        named = frozenset(path for path in paths if os.path.lexists(path))
        waits.append(Wait(os.fstat(descriptor).st_ino, named))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    monkeypatch.setattr("dis_store.durability._LASTING", set())
    return waits
