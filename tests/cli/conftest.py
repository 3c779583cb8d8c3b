"""The command, and a store in which the quickstart run is realised once for all tests."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from command_line import ROOT, SHORTER, Dis, Realised, call
from run_shelf import make_writable

_VARIABLES = (
    "DIS_DEBUG", "DIS_PROGRESS", "DIS_PAGER", "DIS_COLOR", "DIS_JOBS", "DIS_WAIT",
    "PAGER", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE",
)  # fmt: skip


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the quickstart manifest with its inputs, so that no test writes into the checkout."""
    directory = tmp_path_factory.mktemp("configs")
    for name in ("quickstart.json", "quickstart/prompts.json", "quickstart/model"):
        source, target = ROOT / "configs" / name, directory / name
        target.parent.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copyfile(source, target)
    manifest = directory / "quickstart.json"
    # Builds without network are made in another process, where a test can put nothing in the place of anything.
    text = manifest.read_text("utf-8")
    assert "offline_required" in text
    manifest.write_text(text.replace("offline_required", "online_allowed"), "utf-8")
    return manifest


@pytest.fixture(scope="session")
def _realised_once(
    tmp_path_factory: pytest.TempPathFactory, quickstart: Path
) -> Iterator[Realised]:
    store = tmp_path_factory.mktemp("realised") / "store"
    limits = ["--set", "inference.n_prompts=2", "--set", SHORTER]
    shorter = SHORTER.replace("=4", "=2")
    common = ["--store", str(store), "realize", str(quickstart), "--progress", "none"]
    with chdir(store.parent):
        first = call([*common, *limits, "--name", "first"])
        second = call([*common, *limits, "--set", shorter, "--name", "second"])
    assert (first.code, second.code) == (0, 0), first.err + second.err
    yield Realised(store, quickstart, first.out.strip(), second.out.strip())
    make_writable(store)


@pytest.fixture
def realised(_realised_once: Realised, monkeypatch: pytest.MonkeyPatch) -> Realised:
    """Return the shared store; tests that change it must take `own_store`."""
    monkeypatch.setenv("DIS_STORE", str(_realised_once.store))
    return _realised_once


@pytest.fixture
def own_store(
    _realised_once: Realised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Realised]:
    """Return a copy of the realised store that a test may damage."""
    store = tmp_path / "store"
    shutil.copytree(_realised_once.store, store, symlinks=True)
    monkeypatch.setenv("DIS_STORE", str(store))
    yield Realised(store, _realised_once.config, _realised_once.first, _realised_once.second)
    make_writable(store)


@pytest.fixture
def dis() -> Dis:
    """Return the command as a function of its arguments."""
    return lambda *argv: call([str(argument) for argument in argv])


@pytest.fixture(autouse=True)
def _clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep the tests away from the user's settings, and in a directory of their own."""
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "xdg" / name.lower()))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "xdg" / "system"))
    monkeypatch.setenv("DIS_STORE", str(tmp_path / "empty-store"))
    monkeypatch.chdir(tmp_path)
    yield
    make_writable(tmp_path / "empty-store")


@pytest.fixture
def python() -> str:
    """Return the interpreter for tests that need a process."""
    return sys.executable
