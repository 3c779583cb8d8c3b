"""Where an engine that is no part of dis is found, and what it is pinned by."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.environments.wheel_names import PACKAGE_PREFIX
from dis_derivations.lock.document import Lock, LockedFile
from dis_derivations.realisation.engine_environment import find_engine_environment
from dis_store.digest import Sha256
from dis_store.errors import UnfitEnvironmentError

VLLM: dict[str, Any] = {"runtime": {"execution": {"backend": "vllm"}}}


def lock(*names: str) -> Lock:
    files = tuple(
        LockedFile(name, "a-1-py3-none-any.whl", 1, Sha256.of(b"x"), False, "computed", {})
        for name in names
    )
    return Lock(Sha256.of(b"manifest"), "2026-01-01T00:00:00Z", files, {})


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment without packages."""
    place = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    return place / "bin/python"


def site_packages(python: Path) -> Path:
    (found,) = python.parents[1].glob("lib/python3*/site-packages")
    return found


def test_an_engine_that_is_part_of_dis_is_not_looked_for(tmp_path: Path) -> None:
    document = {"runtime": {"execution": {"backend": "reference"}}}
    assert find_engine_environment(document, lock(), tmp_path / "nothing") is None


def test_without_packages_in_the_lock_an_interpreter_must_be_named() -> None:
    with pytest.raises(UnfitEnvironmentError, match="not known where vllm is installed"):
        find_engine_environment(VLLM, lock("model.weight"), None)


def test_what_is_installed_is_pinned_by_its_files_wherever_it_lies(python: Path) -> None:
    found = find_engine_environment(VLLM, lock(), python)
    assert found is not None
    identity = found.environment.identity
    assert identity["kind"] == "installed"
    assert len(identity["digest"]) == 64
    assert str(python.parent) not in str(identity)
    assert (found.environment.occasion, found.warning()) == (None, None)


def test_a_file_that_nobody_installed_leaves_the_engine_unpinned(python: Path) -> None:
    stray = site_packages(python) / "stray.py"
    stray.write_text("", "utf-8")
    try:
        first, second = (find_engine_environment(VLLM, lock(), python) for _ in range(2))
    finally:
        stray.unlink()
    assert first is not None
    assert second is not None
    assert first.environment.identity["kind"] == "unpinned"
    assert "digest" not in first.environment.identity
    assert first.environment.occasion != second.environment.occasion
    assert "stray.py" in str(first.warning())


def test_packages_of_the_lock_are_what_is_run_whatever_is_installed(python: Path) -> None:
    found = find_engine_environment(VLLM, lock(f"{PACKAGE_PREFIX}a"), python)
    assert found is not None
    assert found.environment.identity["kind"] == "pinned"
    # The interpreter of dis, where none is named.
    own = find_engine_environment(VLLM, lock(f"{PACKAGE_PREFIX}a"), None)
    assert own is not None
    assert own.interpreter == Path(sys.executable)
