"""Where an engine that is no part of dis is found, and what it is pinned by."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.environments.wheel_names import PACKAGE_PREFIX
from dis_derivations.graph.engine_process import EngineEnvironment
from dis_derivations.images.interpreter_label import interpreter_text
from dis_derivations.lock.document import Lock, LockedFile
from dis_derivations.manifest.artifact_groups import IMAGE
from dis_derivations.realisation.engine_environment import (
    FoundEnvironment,
    find_engine_environment,
)
from dis_derivations.realisation.foretold_environment import foretold_environment
from dis_store.digest import Sha256
from dis_store.errors import UnfitEnvironmentError

VLLM: dict[str, Any] = {"runtime": {"execution": {"backend": "vllm"}}}


CONFIG = str(Sha256.of(b"configuration"))
FACTS = {"python": "cpython 3.11.2", "libc": "glibc 2.36", "machine": "x86_64"}


def lock(*names: str, **image: str) -> Lock:
    files = tuple(
        LockedFile(name, "a-1-py3-none-any.whl", 1, Sha256.of(b"x"), False, "computed", {})
        for name in names
    )
    sources = {IMAGE: {"config": CONFIG, **image}} if IMAGE in names else {}
    return Lock(Sha256.of(b"manifest"), "2026-01-01T00:00:00Z", files, sources)


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
    assert found.environment is not None
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
    assert first.environment is not None
    assert second.environment is not None
    assert first.environment.identity["kind"] == "unpinned"
    assert "digest" not in first.environment.identity
    assert first.environment.occasion != second.environment.occasion
    assert "stray.py" in str(first.warning())


def test_packages_of_the_lock_are_what_is_run_whatever_is_installed(python: Path) -> None:
    found = find_engine_environment(VLLM, lock(f"{PACKAGE_PREFIX}a"), python)
    assert found is not None
    assert found.environment is not None
    assert found.environment.identity["kind"] == "pinned"
    # The interpreter of dis, where none is named.
    own = find_engine_environment(VLLM, lock(f"{PACKAGE_PREFIX}a"), None)
    assert own is not None
    assert own.interpreter == Path(sys.executable)


# In the image of the manifest


def document(backend: str) -> dict[str, Any]:
    return {"runtime": {"execution": {"backend": backend}}}


@pytest.mark.parametrize("backend", ["vllm", "transformers"])
def test_an_engine_runs_in_the_image_of_its_manifest_and_is_known_by_it(backend: str) -> None:
    found = find_engine_environment(document(backend), lock(IMAGE), None)
    assert found == FoundEnvironment(
        None, EngineEnvironment({"kind": "image", "image": CONFIG}), in_image=True
    )
    assert found.warning() is None


def test_an_interpreter_that_is_named_comes_before_the_image_and_what_is_said_before_both(
    python: Path,
) -> None:
    named = find_engine_environment(VLLM, lock(IMAGE), python)
    assert named is not None
    assert (named.interpreter, named.in_image) == (python, False)
    said = find_engine_environment(VLLM, lock(IMAGE), python, "image")
    assert said is not None
    assert (said.interpreter, said.in_image) == (None, True)
    with pytest.raises(UnfitEnvironmentError, match="not known where vllm is installed"):
        find_engine_environment(VLLM, lock(IMAGE), None, "environment")


def test_packages_on_the_same_python_are_the_same_in_an_image_and_outside() -> None:
    own = find_engine_environment(VLLM, lock(f"{PACKAGE_PREFIX}a"), None)
    assert own is not None
    assert own.environment is not None
    facts = own.environment.identity["interpreter"]
    locked = lock(f"{PACKAGE_PREFIX}a", IMAGE, interpreter=interpreter_text(facts))
    inside = find_engine_environment(VLLM, locked, None)
    assert inside is not None
    assert inside.in_image
    assert inside.environment == own.environment
    other = lock(f"{PACKAGE_PREFIX}a", IMAGE, interpreter=interpreter_text(FACTS | {"libc": "x"}))
    elsewhere = find_engine_environment(VLLM, other, None)
    assert elsewhere is not None
    assert elsewhere.environment != own.environment


@pytest.mark.parametrize("said", ["", "{}", "[]", '{"python":1}', "x" * 5000, "{" * 900])
def test_of_an_image_that_tells_nothing_of_its_python_packages_are_known_with_the_image(
    said: str,
) -> None:
    locked = lock(f"{PACKAGE_PREFIX}a", IMAGE, interpreter=said)
    found = find_engine_environment(VLLM, locked, None)
    assert found is not None
    assert found.environment == EngineEnvironment({"kind": "pinned", "image": CONFIG})


def test_the_mock_engine_runs_in_an_image_when_it_is_told_to() -> None:
    assert find_engine_environment(document("mock"), lock(IMAGE), None) is None
    found = find_engine_environment(document("mock"), lock(IMAGE), None, "image")
    assert found == FoundEnvironment(None, None, in_image=True)


@pytest.mark.parametrize("backend", ["reference", "openai_compatible"])
def test_what_is_no_process_of_this_machine_runs_in_no_image(backend: str) -> None:
    with pytest.raises(
        UnfitEnvironmentError, match=f"the engine {backend} does not run in an image"
    ):
        find_engine_environment(document(backend), lock(IMAGE), None, "image")


def test_without_an_image_there_is_none_to_run_in() -> None:
    with pytest.raises(UnfitEnvironmentError, match="there is no image to run in"):
        find_engine_environment(VLLM, lock(), None, "image")


def test_what_runs_in_an_image_is_foretold_without_docker() -> None:
    foretold = foretold_environment(VLLM, lock(IMAGE), None)
    assert foretold == EngineEnvironment({"kind": "image", "image": CONFIG})
