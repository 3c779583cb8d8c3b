"""Disks that get full by bytes or by names: what was there stays, sources are not touched, `dis gc` works.

`tests/store/test_full_disk.py` has the library on a full tmpfs; here are the commands, ext4, and the lack of inodes.
"""

import errno
import hashlib
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dis_store import Store
from disks import FileSystem, be_able_to_mount, mounted
from effort import effort
from errands import ADD, GC, IMPORT, Errand, Expectation, Inputs, wrong
from forked_commands import Caller, Ended

pytestmark = pytest.mark.stress
SMALL = FileSystem("ext4", 24 << 20, ("-q", "-N", "2000", "-O", "^has_journal"))
PIECE = 64 << 10
STEPS = effort(12, 64)


@pytest.fixture(autouse=True)
def _mounts() -> None:
    be_able_to_mount("mkfs.ext4", "losetup")


@pytest.fixture(params=["ext4", "tmpfs"])
def disk(request: pytest.FixtureRequest, memory: Path) -> Iterator[Path]:
    """A disk of 24 MiB and 2000 inodes."""
    top = memory / "disk"
    top.mkdir()
    if request.param == "ext4":
        SMALL.make(memory / "image")
        with mounted(memory / "image", top, SMALL):
            yield top
        return
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m,nr_inodes=2000", "tmpfs", top], check=True
    )
    try:
        yield top
    finally:
        subprocess.run(["umount", top], check=True)


def contents(top: Path) -> dict[str, str]:
    """Return the digests of all files in a directory."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(top.rglob("*"))
        if path.is_file()
    }


@contextmanager
def bytes_left(disk: Path, pieces: int) -> Iterator[None]:
    """Leave so many pieces of 64 KiB."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (PIECE, 512):
            try:
                while True:
                    file.write(b"\x01" * size)
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017 - that it fails is the point
    os.truncate(filler, max(0, filler.stat().st_size - pieces * PIECE))
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def inodes_left(disk: Path, number: int) -> Iterator[None]:
    """Leave so many inodes."""
    room = disk / "names"
    room.mkdir()
    while os.statvfs(disk).f_ffree > number:
        (room / f"{os.statvfs(disk).f_ffree}").touch()
    try:
        yield
    finally:
        subprocess.run(["rm", "-r", room], check=True)


LEAVING: dict[str, Callable[[Path, int], AbstractContextManager[None]]] = {
    "bytes": bytes_left,
    "inodes": lambda disk, step: inodes_left(disk, 5 * step),
}


@pytest.mark.parametrize("what", LEAVING)
@pytest.mark.parametrize("errand", [ADD, IMPORT], ids=lambda each: each.name)
def test_a_command_on_a_full_disk_says_so_and_leaves_all_as_it_was(
    disk: Path, caller: Caller, inputs: Inputs, errand: Errand, what: str
) -> None:
    before = contents(inputs.tree)
    call = replace(caller, store=disk / "store")
    with Store.open(call.store) as store:
        expectation = errand.prepare(store)
    refused = 0
    for step in range(STEPS):
        with LEAVING[what](disk, step):
            ended = call(*errand.argv(inputs, disk))
            if ended.code == 0:
                break
            refused += 1
            check_refusal(ended, call.store, expectation)
    ended = call(*errand.argv(inputs, disk))
    assert ended.code == 0, ended
    assert wrong(call.store, expectation.afterwards, orphans_allowed=False) == []
    assert refused > 0
    assert contents(inputs.tree) == before


def check_refusal(ended: Ended, store: Path, expectation: Expectation) -> None:
    assert ended.code == 5, ended
    assert ended.untold is None, ended
    assert wrong(store, expectation.always, orphans_allowed=True) == []


@pytest.mark.parametrize("what", LEAVING)
def test_a_collection_frees_a_disk_that_is_full(
    disk: Path, caller: Caller, inputs: Inputs, what: str
) -> None:
    call = replace(caller, store=disk / "store", reserve_bytes=1 << 20)
    with Store.open(call.store) as store:
        expectation = GC.prepare(store)
    (call.store / "reserve").write_bytes(b"\x00" * call.reserve_bytes)
    with LEAVING[what](disk, 0):
        ended = call("gc")
        assert ended.code == 0, ended
        assert wrong(call.store, expectation.afterwards, orphans_allowed=False) == []
