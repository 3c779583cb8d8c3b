"""A Docker engine for tests: Debian's `dockerd`, on a socket and in directories of its own."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import pytest

_SECONDS = 60.0
# Who keeps the images: Docker itself, or its containerd.
ImageStore = Literal["docker", "containerd"]
_STORAGE_DRIVERS = {"docker": ("overlay2", "vfs"), "containerd": ("overlayfs", "native")}
# The first whose images containerd can keep.
_CONTAINERD_FROM = 24


@contextmanager
def docker_engine(
    directory: Path, image_store: ImageStore = "docker", more: Sequence[str] = ()
) -> Iterator[str]:
    """Run an engine for the time of a block; its address is what `DOCKER_HOST` takes.

    Where there can be none the test is skipped, or fails on a machine that must have one (`CI=true`). One whose images
    are kept by containerd need not be there.

    Args:
        directory: Of its own.
        image_store: Who keeps its images.
        more: Options of `dockerd` beside those that keep it apart.
    """
    if shutil.which("dockerd") is None:
        _give_up("there is no dockerd (Debian: docker.io)")
    if os.geteuid() != 0:
        _give_up("dockerd wants root")
    if image_store == "containerd" and (found := _version()) < _CONTAINERD_FROM:
        pytest.skip(
            f"dockerd {found} keeps its images itself; from {_CONTAINERD_FROM} on containerd can"
        )
    causes = []
    for driver in _STORAGE_DRIVERS[image_store]:
        home = directory / driver
        home.mkdir(parents=True)
        engine = _Engine(home, driver, image_store, more)
        try:
            cause = engine.start()
            if cause is None:
                yield engine.address
                return
            causes.append(f"{driver}: {cause}")
        finally:
            engine.stop()
    _give_up("; ".join(causes))


def _version() -> int:
    said = subprocess.run(["dockerd", "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"version (\d+)\.", said.stdout)
    assert found is not None, said.stdout
    return int(found[1])


def _give_up(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(f"no Docker engine could be started: {reason}")
    pytest.skip(f"no Docker engine could be started: {reason}")


class _Engine:
    def __init__(
        self, home: Path, driver: str, image_store: ImageStore, more: Sequence[str]
    ) -> None:
        self._home = home
        self._features = {"containerd-snapshotter": True} if image_store == "containerd" else {}
        self._more = more
        self._driver = driver
        self._process: subprocess.Popen[bytes] | None = None
        # A socket's path has 108 bytes at most, so it lies in the shortest directory there is.
        self._socket = home / "s"
        self.address = f"unix://{self._socket}"

    def start(self) -> str | None:
        """Start it, and return why it does not run; None when it answers."""
        command = [
            "dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none", "-H", self.address,
            "--data-root", str(self._home / "data"), "--exec-root", str(self._home / "x"),
            "-p", str(self._home / "pid"), "--storage-driver", self._driver,
            "--config-file", str(self._home / "config.json"), "--log-level", "warn", *self._more,
        ]  # fmt: skip
        config = {"features": self._features} if self._features else {}
        (self._home / "config.json").write_text(json.dumps(config))
        with (self._home / "log").open("wb") as log:
            # In a session of its own: the containerd that it starts is ended with it.
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            if self._process.poll() is not None:
                return self._last_words()
            if self._answers():
                return None
            time.sleep(0.1)
        return f"it did not answer within {_SECONDS} s: {self._last_words()}"

    def stop(self) -> None:
        """End it and all that it started, and unmount what it mounted."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        places = [line.split()[1] for line in mounts]
        for place in sorted(places, reverse=True):
            if place.startswith(f"{self._home}/"):
                subprocess.run(["umount", "-l", place], check=False, capture_output=True)

    def _answers(self) -> bool:
        import socket

        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            try:
                connection.connect(str(self._socket))
                connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b" 200 " in connection.recv(64)
            except OSError:
                return False

    def _last_words(self) -> str:
        lines = (self._home / "log").read_text(errors="replace").splitlines()
        return lines[-1][:300] if lines else "it says nothing"
