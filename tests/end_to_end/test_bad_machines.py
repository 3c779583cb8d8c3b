"""Machines that refuse: directories without permission, and disks without room."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from users import User, check_clear

# Root may write everywhere, unless it lacks these capabilities; then the modes of its own files hold for it.
_WITHOUT_PRIVILEGES = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
_IS_ROOT = os.geteuid() == 0
Unprivileged = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def unprivileged(user: User, tmp_path: Path) -> Iterator[Unprivileged]:
    """Return a function that calls `dis` as somebody for whom the modes of files hold."""
    prefix = _WITHOUT_PRIVILEGES if _IS_ROOT else []
    if _IS_ROOT and (
        shutil.which("setpriv") is None
        or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("root cannot be made to lack privileges here")

    def run(*argv: str | Path, code: int = 0) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [*prefix, sys.executable, "-m", "dis_command", *map(str, argv)],
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == code, done.stderr
        if code:
            check_clear(done.stderr)
        return done

    yield run
    for path in [tmp_path, *tmp_path.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)


def copy_of(store: Path, to: Path) -> Path:
    """Return a copy of a store, with its hard links."""
    subprocess.run(["cp", "-a", str(store), str(to)], check=True)
    return to


def test_a_store_that_cannot_be_made_is_refused(
    user: User, unprivileged: Unprivileged, tmp_path: Path
) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    store = tmp_path / "closed" / "store"
    done = unprivileged("realize", "tiny.json", "--store", store, code=5)
    assert f"the store {store} cannot be written" in done.stderr
    assert "--store" in done.stderr
    (tmp_path / "closed").chmod(0o755)
    unprivileged("realize", "tiny.json", "--store", store)


def test_a_store_that_may_be_read_only_can_be_read(
    user: User, unprivileged: Unprivileged, tmp_path: Path
) -> None:
    user.does("realize", "tiny.json", "--name", "first")
    store = copy_of(user.store, tmp_path / "read-only")
    subprocess.run(["chmod", "-R", "a-w", str(store)], check=True)
    everything = sorted(store.rglob("*"))
    for argv in (
        ["list"],
        ["show", "first"],
        ["root", "list"],
        ["path-info", "-r", "first"],
        ["ls", "first"],
        ["cat", "first", "bundle.json"],
        ["diff", "first", "first"],
        ["log", "first"],
        ["inspect", "first"],
        ["store", "verify", "--all"],
        ["store", "verify", "first"],
    ):
        assert unprivileged(*argv, "--store", store).stdout
    assert sorted(store.rglob("*")) == everything
    for argv in (["realize", "tiny.json"], ["gc"]):
        done = unprivileged(*argv, "--store", store, code=5)
        assert f"the store {store} cannot be written" in done.stderr


@pytest.mark.parametrize("room", ["locks", "tmp", "objects", "realisations", "roots", "temproots"])
def test_a_room_of_the_store_that_is_closed_is_named_and_nothing_is_lost(
    user: User, unprivileged: Unprivileged, tmp_path: Path, room: str
) -> None:
    user.does("realize", "tiny.json", "--name", "first")
    store = copy_of(user.store, tmp_path / "store")
    options = ("--store", store, "--set", "inference.n_prompts=2", "--name", "second")
    (store / room).chmod(0o555)
    done = unprivileged("realize", "tiny.json", *options, code=5)
    assert f"the store {store} cannot be written\n  cause: Permission denied" in done.stderr
    (store / room).chmod(0o755)
    unprivileged("store", "verify", "--all", "--store", store)
    unprivileged("realize", "tiny.json", *options)
    unprivileged("show", "first", "--store", store)


@pytest.mark.parametrize("name", ["tiny.json", "prompts.txt", "model", "model/model.safetensors"])
def test_an_input_that_may_not_be_read_is_named(
    user: User, unprivileged: Unprivileged, name: str
) -> None:
    user.path(name).chmod(0)
    done = unprivileged("realize", "tiny.json", code=5 if name == "model" else 2)
    assert Path(name).name in done.stderr
    assert "Permission denied" in done.stderr
    user.path(name).chmod(0o755)
    unprivileged("realize", "tiny.json")


def test_results_that_may_not_be_laid_out_are_said(
    user: User, unprivileged: Unprivileged, tmp_path: Path
) -> None:
    user.does("realize", "tiny.json")
    (tmp_path / "closed").mkdir(mode=0o555)
    place = tmp_path / "closed" / "run"
    done = unprivileged("run", "tiny.json", "--run-dir", place, code=5)
    assert f"{place} cannot be written\n  cause: Permission denied" in done.stderr
    done = unprivileged("realize", "tiny.json", "--out-link", place, code=2)
    assert f"the result link {place} cannot be made\n  cause: Permission denied" in done.stderr


@pytest.mark.parametrize("log", ["kept", "gone"])
def test_a_store_on_a_read_only_file_system_can_be_read(
    user: User, tmp_path: Path, log: str
) -> None:
    user.does("realize", "tiny.json", "--name", "first")
    store = copy_of(user.store, tmp_path / "store")
    if log == "gone":
        for path in store.glob("index.sqlite-*"):
            path.unlink()
    with read_only(store):
        user.does("show", "first", "--store", store)
        user.does("list", "--store", store)
        user.does("store", "verify", "--all", "--store", store)
        for argv in (["realize", "tiny.json", "--name", "x"], ["gc"], ["root", "remove", "first"]):
            user.refused(*argv, "--store", store, code=5, says=f"{store} cannot be written")
    user.does("store", "verify", "--all", "--store", store)


@contextlib.contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Mount a directory over itself, read-only, for the time of a block."""
    if not _IS_ROOT:
        pytest.skip("only root can mount")
    mounts = (["--bind", str(path), str(path)], ["-o", "remount,ro,bind", str(path)])
    if subprocess.run(["mount", *mounts[0]], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount")
    try:
        subprocess.run(["mount", *mounts[1]], check=True)
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


def test_a_root_that_cannot_be_written_is_named(
    user: User, unprivileged: Unprivileged, tmp_path: Path
) -> None:
    user.does("realize", "tiny.json", "--name", "first")
    store = copy_of(user.store, tmp_path / "store")
    (store / "roots").chmod(0o555)
    done = unprivileged("root", "add", "second", "first", "--store", store, code=5)
    assert f"cause: Permission denied: {store / 'roots' / 'second.json'}" in done.stderr


@pytest.mark.parametrize("arguments", ["show first", "list", "cat first bundle.json", "--help"])
def test_a_full_standard_output_is_named(user: User, tmp_path: Path, arguments: str) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    user.does("realize", "tiny.json", "--name", "first")
    with full.open("w") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "dis_command", *arguments.split()],
            env={**os.environ, "HOME": str(tmp_path)},
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 5, done.stderr
    check_clear(done.stderr)
    assert "error: standard output cannot be written\n  cause: No space left" in done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)]
    if not _IS_ROOT:
        pytest.skip("only root can mount a small file system")
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount a file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def fill(path: Path) -> None:
    """Leave no byte free on the disk of `path`."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(1 << 12)):
            pass


@pytest.fixture
def any_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let builds begin however little room there is, so that they meet a full disk on their way."""
    from dis_derivations.realisation import preflight

    monkeypatch.setattr(preflight, "_WORKING_BYTES", 0)


def test_a_disk_that_is_too_full_is_refused_before_anything_is_built(
    user: User, small_disk: Path
) -> None:
    options = ("--store", small_disk / "store")
    said = user.refused("realize", "tiny.json", *options, code=5, says="MiB free")
    assert "too full" in said or "room" in said


@pytest.mark.usefixtures("any_room")
def test_a_full_disk_loses_nothing_and_the_collector_makes_room(
    user: User, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIS_STORE", str(small_disk / "store"))
    user.does("realize", "tiny.json", "--name", "first")
    user.does("realize", "tiny.json", "--set", "inference.n_prompts=1", "--name", "waste")
    user.does("root", "remove", "waste")
    fill(small_disk / "filler")
    outcome = user.dis("realize", "tiny.json", "--set", "inference.n_prompts=2")
    assert outcome.code == 5, outcome.err
    check_clear(outcome.err)
    assert shutil.disk_usage(small_disk).free <= 1 << 16
    # What is realised can still be had, and deleting needs no room.
    user.does("show", "first")
    user.does("gc", "--keep-last", "0", "--yes")
    (small_disk / "filler").unlink()
    user.does("store", "verify", "--all")
    user.does("realize", "tiny.json", "--set", "inference.n_prompts=2")
    user.does("show", "first")


@pytest.mark.usefixtures("any_room")
@pytest.mark.parametrize("free", [0, 16, 64, 160, 256, 320, 400])
def test_a_disk_that_fills_up_at_any_point_leaves_a_whole_store(
    user: User, small_disk: Path, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    monkeypatch.setenv("DIS_STORE", str(small_disk / "store"))
    user.does("list")
    (small_disk / "spare").write_bytes(bytes(free << 10))
    fill(small_disk / "filler")
    (small_disk / "spare").unlink()
    outcome = user.dis("realize", "tiny.json")
    if outcome.code:
        assert outcome.code == 5, outcome.err
        check_clear(outcome.err)
        user.does("gc")
    (small_disk / "filler").unlink()
    user.does("store", "verify", "--all")
    user.does("realize", "tiny.json")
    assert not list((small_disk / "store" / "tmp").iterdir())
