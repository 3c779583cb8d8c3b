"""The `dis` command as a user has it: a subprocess with an environment of its own."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tiny_runs import write_manifest
from users import User

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "configs/quickstart.json"


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The one document on standard output."""
        return json.loads(self.stdout)


@dataclass(frozen=True)
class Command:
    """Runs `dis` against one store."""

    store: Path
    home: Path
    cwd: Path = ROOT
    extra: Mapping[str, str] = field(default_factory=dict)

    def having(self, **changes: Any) -> "Command":
        """Return the command with another store, home, working directory or extra environment."""
        return replace(self, **changes)

    @property
    def environment(self) -> dict[str, str]:
        """What a fresh login would have, and the store."""
        kept = {
            name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ
        }
        # Coverage of subprocesses is measured through this variable.
        kept |= {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
        return {
            **kept,
            "HOME": str(self.home),
            "DIS_STORE": str(self.store),
            "LANG": "C.UTF-8",
            **self.extra,
        }

    def start(self, *arguments: str | Path, **options: Any) -> "subprocess.Popen[str]":
        """Start the command and return the process."""
        return subprocess.Popen(
            [sys.executable, "-m", "dis_command", *map(str, arguments)],
            cwd=self.cwd,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def __call__(self, *arguments: str | Path, expect: int | None = 0) -> Finished:
        """Run the command to its end; `expect` is its exit code, None for any."""
        process = self.start(*arguments)
        stdout, stderr = process.communicate(timeout=300)
        finished = Finished(process.returncode, stdout, stderr)
        if expect is not None:
            assert finished.code == expect, f"dis {' '.join(map(str, arguments))}: {finished}"
        assert "Traceback" not in stderr
        return finished


@pytest.fixture
def dis(tmp_path: Path) -> Command:
    """`dis` with an empty store."""
    return Command(tmp_path / "store", tmp_path / "home")


@pytest.fixture(scope="session")
def command_in() -> Callable[[Path], Command]:
    """Return a function that makes `dis` with an empty store in a directory."""
    return lambda place: Command(place / "store", place / "home")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """`dis` with a store in which the quickstart run is realised as `run-a`; tests only add to it."""
    place = tmp_path_factory.mktemp("shared")
    command = Command(place / "store", place / "home")
    command("realize", QUICKSTART, "--name", "run-a")
    return command


@pytest.fixture
def elsewhere(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that copies the quickstart configuration to a place of its own."""

    def copy(name: str) -> Path:
        place = tmp_path / name
        place.mkdir()
        subprocess.run(
            ["cp", "-r", str(QUICKSTART), str(ROOT / "configs/quickstart"), str(place)], check=True
        )
        lock = QUICKSTART.with_name("quickstart.lock.json")
        subprocess.run(["cp", str(lock), str(place)], check=True)
        return place / "quickstart.json"

    return copy


@pytest.fixture(scope="session")
def _pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a tiny manifest and what it names; tests copy it."""
    place = tmp_path_factory.mktemp("pristine")
    write_manifest(place)
    return place


@pytest.fixture(scope="module")
def _users_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("user") / "store"


@pytest.fixture
def user(
    _pristine: Path, _users_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> User:
    """A user with a tiny manifest; the tests of a module share the store."""
    place = tmp_path / "place"
    shutil.copytree(_pristine, place)
    for name in ("DIS_DEBUG", "DIS_PROGRESS", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("DIS_STORE", str(_users_store))
    monkeypatch.setenv("DIS_PROGRESS", "none")
    monkeypatch.chdir(place)
    return User(place, _pristine, _users_store)
