"""Debian's docker-registry on a port of this machine, with a directory, users and deletion as a test wants them."""

import contextlib
import ctypes
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PROGRAM = "docker-registry"
_SECONDS_TO_START = 20.0


@dataclass(frozen=True)
class Settings:
    """How a registry is set up.

    Attributes:
        delete: Whether manifests and blobs may be deleted.
        users: Passwords by user; where there are any, everybody else is refused.
        token: The `auth.token` block of its configuration, without users.
        secret: Signs the state of uploads, so that they outlive a restart.
    """

    delete: bool = True
    users: dict[str, str] = field(default_factory=dict)
    token: dict[str, str] = field(default_factory=dict)
    secret: str = "a secret of tests"  # noqa: S105 - of a registry that lives for a test


@dataclass
class RealRegistry:
    """A registry that runs.

    Attributes:
        directory: Holds its configuration, its log and its blobs.
        host: `127.0.0.1:PORT`.
    """

    directory: Path
    host: str
    settings: Settings
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        config = _write_config(self.directory, self.host, self.settings)
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "serve", str(config)],
                stdout=log,
                stderr=log,
                env={**os.environ, "OTEL_TRACES_EXPORTER": "none"},
            )
        latest = time.monotonic() + _SECONDS_TO_START
        while time.monotonic() < latest:
            if self.process.poll() is not None:
                break
            if _answers(self.host):
                return
            time.sleep(0.05)
        self.stop()
        pytest.fail((self.directory / "log").read_text("utf-8", "replace")[-2000:])

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)
            self.process = None

    def collect_garbage(self, *options: str) -> str:
        """Run the registry's own collection while it stands still; return what that says."""
        self.stop()
        done = subprocess.run(
            [PROGRAM, "garbage-collect", *options, str(self.directory / "config.yml")],
            capture_output=True,
            text=True,
            check=True,
        )
        self.start()
        return done.stdout

    def reference(self, name: str) -> str:
        """Return a reference to `repository:tag` of it."""
        return f"oci://{self.host}/{name}"

    def get(self, path: str) -> Any:
        """Return the JSON at a path below `/v2/`, asked without a password."""
        with urllib.request.urlopen(f"http://{self.host}/v2/{path}", timeout=30) as answer:
            return json.load(answer)

    def requests(self) -> list[str]:
        """Return the lines of its log that tell of requests: `GET /v2/… 200`.

        It writes them after it has answered, so this waits until no more come.
        """
        found = []
        for line in self.log().splitlines():
            if '" ' in line and "HTTP/1." in line and line.count('"') >= 2:
                request, _, rest = line.split('"', 1)[1].partition('" ')
                found.append(f"{request.removesuffix(' HTTP/1.1')} {rest.split(' ')[0]}")
        return found

    def log(self) -> str:
        """Return its log, once no more comes."""
        self._settle()
        return (self.directory / "log").read_text("utf-8", "replace")

    def _settle(self) -> None:
        size = -1
        while size != (now := (self.directory / "log").stat().st_size):
            size = now
            time.sleep(0.15)

    def blob_path(self, digest: str) -> Path:
        """Return where a blob lies."""
        hexadecimal = digest.removeprefix("sha256:")
        return (
            self.directory
            / "blobs/docker/registry/v2/blobs/sha256"
            / hexadecimal[:2]
            / hexadecimal
            / "data"
        )


@contextlib.contextmanager
def running_registry(directory: Path, settings: Settings | None = None) -> Iterator[RealRegistry]:
    """Run a registry for the time of a block; without the program the test is skipped, and fails where CI is set."""
    need(PROGRAM)
    directory.mkdir(parents=True, exist_ok=True)
    registry = RealRegistry(directory, f"127.0.0.1:{free_port()}", settings or Settings())
    registry.start()
    try:
        yield registry
    finally:
        registry.stop()


def need(program: str) -> None:
    """Skip the test where a program is missing; let it fail where CI says that everything must be there."""
    if shutil.which(program) is None:
        text = f"{program} is not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(text)
        pytest.skip(text)


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def hashed_password(password: str) -> str:
    """Return a password as `htpasswd -B` writes it; the system's own libcrypt knows bcrypt."""
    library = ctypes.CDLL("libcrypt.so.1")
    library.crypt.restype = ctypes.c_char_p
    found = library.crypt(password.encode(), b"$2y$05$abcdefghijklmnopqrstuu")
    text = bytes(found or b"").decode()
    if not text.startswith("$2y$05$"):
        pytest.fail("the libcrypt of this machine knows no bcrypt")
    return text


def _answers(host: str) -> bool:
    try:
        urllib.request.urlopen(f"http://{host}/v2/", timeout=5).close()
    except urllib.error.HTTPError as error:
        error.close()
        return error.code == 401
    except OSError:
        return False
    return True


def _write_config(directory: Path, host: str, settings: Settings) -> Path:
    document: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": False}},
        "storage": {
            "filesystem": {"rootdirectory": str(directory / "blobs")},
            "delete": {"enabled": settings.delete},
        },
        "http": {"addr": host, "secret": settings.secret},
    }
    if settings.users:
        lines = [f"{user}:{hashed_password(text)}\n" for user, text in settings.users.items()]
        (directory / "htpasswd").write_text("".join(lines), "utf-8")
        document["auth"] = {"htpasswd": {"realm": "tests", "path": str(directory / "htpasswd")}}
    elif settings.token:
        document["auth"] = {"token": settings.token}
    path = directory / "config.yml"
    # JSON is YAML.
    path.write_text(json.dumps(document), "utf-8")
    return path
