"""Disks that are files: made, mounted, recorded while they are written to, and filled."""

import contextlib
import ctypes
import fcntl
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

_CLONE_NEWNS = 0x20000
# Of linux/fs.h: on which block of the disk one of a file lies, and how large a block is.
_FIBMAP, _FIGETBSZ = 1, 2
_SERVER = Path(__file__).with_name("recording_server.py")


@dataclass(frozen=True)
class FileSystem:
    """A kind of file system, small, and large enough for what a realisation wants to be free.

    Attributes:
        name: As in `mkfs.NAME`.
        size: The bytes of the disk.
        making: Options of mkfs. Nothing is discarded, and nothing left for later.
        mounting: Options of mount.
    """

    name: str
    size: int
    making: tuple[str, ...]
    mounting: str = "defaults"

    def make(self, image: Path) -> None:
        """Make a file with an empty file system in it."""
        with image.open("xb") as file:
            file.truncate(self.size)
        _run(f"mkfs.{self.name}", *self.making, image)
        # What mkfs wrote zeros to, the log of XFS above all, need not be copied again and again.
        _run("fallocate", "--dig-holes", image)


EXT4 = FileSystem(
    "ext4", 96 << 20, ("-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", "-J", "size=4")
)  # fmt: skip
XFS = FileSystem("xfs", 320 << 20, ("-q", "-K"), "nouuid")
BTRFS = FileSystem("btrfs", 256 << 20, ("-q", "-K"))
FILE_SYSTEMS = (EXT4, XFS, BTRFS)


def unfit(cause: str) -> None:
    """Skip a test that this machine cannot do; where everything has to be tested, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"this machine must be able to do it: {cause}")
    pytest.skip(cause)


@cache
def have_own_mounts() -> bool:
    """Give this process mounts of its own, which end with it; tell whether it may."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 or libc.unshare(_CLONE_NEWNS) != 0:
        return False
    _run("mount", "--make-rprivate", "/")
    return True


def be_able_to_mount(*programs: str) -> None:
    """Skip or fail unless disks can be mounted here."""
    if os.geteuid() != 0:
        unfit("only root may mount")
    if not os.access("/dev/loop-control", os.W_OK):
        unfit("there are no loop devices")
    for program in programs:
        if subprocess.run(["which", program], capture_output=True, check=False).returncode != 0:
            unfit(f"{program} is not installed")
    if not have_own_mounts():
        unfit("this process may not have mounts of its own")


@contextlib.contextmanager
def mounted(image: Path, place: Path, file_system: FileSystem) -> Iterator[Path]:
    """Mount a file for the time of a block."""
    _run("mount", "-o", f"loop,{file_system.mounting}", image, place)
    try:
        yield place
    finally:
        _unmount(place)


@dataclass(frozen=True)
class Recording:
    """A mounted disk of which every write and flush is recorded.

    Attributes:
        top: Where it is mounted.
        marks: What is written to this file becomes a mark among the records.
        log: The records.
    """

    top: Path
    marks: Path
    log: Path


@contextlib.contextmanager
def recorded(image: Path, place: Path, file_system: FileSystem) -> Iterator[Recording]:
    """Mount a file by way of a server that writes down what reaches it.

    Args:
        image: The disk.
        place: A directory of one's own.
        file_system: What is on the disk.
    """
    served, top, log = place / "served", place / "recorded", place / "log"
    for directory in (served, top):
        directory.mkdir()
    with _serving(image, log, served):
        device = _run("losetup", "--direct-io=on", "--show", "--find", served / "disk").strip()
        try:
            _run("mount", "-o", file_system.mounting, device, top)
        finally:
            # It goes when it is unmounted, and so also when this process is killed.
            _run("losetup", "--detach", device)
        try:
            yield Recording(top, served / "marks", log)
        finally:
            _unmount(top)


@contextlib.contextmanager
def _serving(image: Path, log: Path, served: Path) -> Iterator[None]:
    # It ends with this process, however that ends: a file system whose server is stopped cannot be unmounted.
    server = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", sys.executable, _SERVER, image, log, served],
        env={**os.environ, "PYTHONPATH": str(_SERVER.parent)},
    )
    try:
        while not (served / "disk").exists():
            assert server.poll() is None, "the recording server did not start"
            time.sleep(0.01)
        yield
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            _unmount(served)
        server.terminate()
        server.wait(timeout=30)


def synchronise(top: Path) -> None:
    """Write all that a file system has in memory to its disk."""
    _run("sync", "--file-system", top)


def copy_image(source: Path, target: Path) -> None:
    """Copy a file of which most is holes."""
    _run("cp", "--sparse=auto", "--reflink=auto", source, target)


def cut_off(image: Path, file: Path, offset: int) -> None:
    """Let a mounted disk lose all from a byte of a file on it: whoever reads that from now on is answered with EIO.

    Args:
        image: The disk.
        file: The file, made by one write on an empty disk, so that its blocks lie one after the other.
        offset: The byte, of which the whole block goes.
    """
    synchronise(file.parent)
    descriptor = os.open(file, os.O_RDONLY)
    try:
        (size,) = struct.unpack("I", fcntl.ioctl(descriptor, _FIGETBSZ, bytes(4)))
        wanted = struct.pack("I", offset // size)
        (block,) = struct.unpack("I", fcntl.ioctl(descriptor, _FIBMAP, wanted))
        os.truncate(image, block * size)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _unmount(place: Path) -> None:
    for _ in range(50):
        if subprocess.run(["umount", place], capture_output=True, check=False).returncode == 0:
            return
        # Somebody who looks at all disks, as a file manager does, holds it for a moment.
        time.sleep(0.02)
    _run("umount", "--lazy", place)


def _run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stderr}"
    return done.stdout
