"""What the fault rigs share."""

import os
import pkgutil
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dis_derivations import distribution, registry, transport
from disks import have_own_mounts
from effort import is_stress
from errands import Inputs, modules_in_use, write_inputs
from forked_commands import Caller, Nursery, nursery
from prepared_stores import PreparedStore, prepare

Tell = Callable[[str], None]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the rigs counted, which docs/internals/reliability.md quotes."""
    if not is_stress():
        return
    for report in terminalreporter.stats.get("passed", []):
        for name, text in report.user_properties:
            if name == "counted" and report.when == "call":
                _, _, test = report.nodeid.partition("::")
                terminalreporter.write_line(f"{test}: {text} ({report.duration:.0f} s)")


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Tell:
    """Note what a rig has counted."""
    return lambda text: record_property("counted", text)


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """What the commands read, made once."""
    return write_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="session")
def _nursery(inputs: Inputs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    # Before it starts, since it must see what is mounted later.
    have_own_mounts()
    modules = modules_in_use(inputs, tmp_path_factory.mktemp("rehearsal"))
    with nursery([*modules, *_modules_of_transfers()]) as found:
        yield found


def _modules_of_transfers() -> list[str]:
    """Return what pushes and pulls import, for which the rehearsal has no registry."""
    packages = (registry, distribution, transport)
    found = [
        each.name
        for package in packages
        for each in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    ]
    return [*found, "dis_command.commands.push", "dis_command.commands.pull"]


@pytest.fixture
def caller(_nursery: Nursery, home: Path, tmp_path: Path) -> Caller:
    """Calls `dis` with a store of one's own."""
    return Caller(_nursery, tmp_path / "store", home)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A directory that no disk has to be waited for, where there is one."""
    if not os.access("/dev/shm", os.W_OK):  # noqa: S108 - a directory of its own is made there
        yield tmp_path
        return
    place = Path(tempfile.mkdtemp(prefix="dis-stress-", dir="/dev/shm"))
    try:
        yield place
    finally:
        for directory, _, _ in os.walk(place):
            # What is in a store is read-only.
            Path(directory).chmod(0o700)
        shutil.rmtree(place)


@pytest.fixture(autouse=True)
def _small_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the disks small: what the reserve is for is tested in test_full_disks.py."""
    monkeypatch.setattr("dis_store.layout.RESERVE_BYTES", 4096)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory for whoever calls the commands."""
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def prepared(
    request: pytest.FixtureRequest, memory: Path, inputs: Inputs, caller: Caller
) -> PreparedStore:
    """A store that is filled for the errand that is the parameter."""
    return prepare(request.param, memory, inputs, replace(caller, store=memory / "store"))
