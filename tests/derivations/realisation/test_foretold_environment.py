"""What `dis show-derivation` can tell of an engine before anything is read."""

import sys
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.environments.wheel_names import PACKAGE_PREFIX
from dis_derivations.lock.document import Lock, LockedFile
from dis_derivations.realisation.engine_environment import find_engine_environment
from dis_derivations.realisation.foretold_environment import foretold_environment, is_left_open
from dis_store.digest import Sha256


def document(backend: str) -> dict[str, Any]:
    return {"runtime": {"execution": {"backend": backend}}}


def lock(*names: str) -> Lock:
    files = tuple(
        LockedFile(name, "a-1-py3-none-any.whl", 1, Sha256.of(b"x"), False, "computed", {})
        for name in names
    )
    return Lock(Sha256.of(b"manifest"), "2026-01-01T00:00:00Z", files, {})


@pytest.mark.parametrize("interpreter", [None, Path(sys.executable)])
def test_what_a_lock_pins_is_told_as_a_realisation_finds_it(interpreter: Path | None) -> None:
    packages = lock(f"{PACKAGE_PREFIX}a")
    told = foretold_environment(document("vllm"), packages, interpreter)
    found = find_engine_environment(document("vllm"), packages, interpreter)
    assert told is not None
    assert found is not None
    assert told == found.environment
    assert not is_left_open(document("vllm"), told)


def test_what_is_installed_somewhere_is_left_open_and_not_read(tmp_path: Path) -> None:
    told = foretold_environment(document("vllm"), lock("model.weight"), tmp_path / "nothing")
    assert told is None
    assert is_left_open(document("vllm"), told)


def test_an_engine_that_is_part_of_dis_leaves_nothing_open() -> None:
    told = foretold_environment(document("reference"), lock(f"{PACKAGE_PREFIX}a"), None)
    assert told is None
    assert not is_left_open(document("reference"), told)
