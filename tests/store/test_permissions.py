"""What the store does where it may not do everything. Run as root, the tests run themselves as nobody as well."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

from auditing import audit
from dis_store import Digest, InvalidInputError, Root, Store, UnfitEnvironmentError
from trees import Blob, write_text, write_tree

NOBODY = 65534
ROOT = Path(__file__).parents[2]
# This file, and those where permissions matter: a directory that cannot be written can only be moved by root.
MOST_TELLING = ["test_permissions.py", "test_registration.py"]
ALSO_TELLING = [
    "test_collection.py",
    "test_reindexing.py",
    "test_verification.py",
    "test_writing.py",
]

ordinary_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize(
    "files",
    [MOST_TELLING, pytest.param(ALSO_TELLING, marks=pytest.mark.slow)],
    ids=["most", "also"],
)
def test_another_user_passes_the_same_tests(files: list[str]) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    python = python_for_others()
    if python is None:
        pytest.skip("another user can run no Python of this version that reads our packages")
    # Not in pytest's own directory: nobody but its owner can enter that.
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        copy_for_others(place)
        done = as_nobody(python, ["-m", "pytest", "-q", *files], place / "tests" / "store")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "passed" in done.stdout


def python_for_others() -> str | None:
    """Return a Python that another user can run with our packages: ours may lie in root's own home."""
    needed = ["-c", "import apsw, blake3, hypothesis, pytest, rfc8785"]
    for python in (sys.executable, "/usr/bin/python{}.{}".format(*sys.version_info)):
        if as_nobody(python, needed, Path("/")).returncode == 0:
            return python
    return None


def as_nobody(python: str, arguments: list[str], place: Path) -> "subprocess.CompletedProcess[str]":
    """Run Python as another user.

    By way of a shell: setpriv itself still has the rights of root when it starts a program.
    """
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return subprocess.run(
        [*become, "sh", "-c", 'exec "$@"', "sh", python, *arguments],
        cwd=place,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": sysconfig.get_path("purelib"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(place.parents[1] / "tmp") if place.name == "store" else place.anchor,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def copy_for_others(place: Path) -> None:
    for name in ("store/dis_store", "tests/store", "tests/support"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    (place / "pytest.ini").write_text(
        "[pytest]\naddopts = --import-mode=importlib -p no:cacheprovider\n"
        "pythonpath = store tests/support\nfilterwarnings = error\n"
        "markers =\n    slow: as in pyproject.toml\n"
    )
    (place / "tmp").mkdir()
    for path in [place, *place.rglob("*")]:
        os.chown(path, NOBODY, NOBODY)


def use(path: Path, digest: Digest) -> None:
    """Write to every room of a store."""
    with Store.open(path) as store:
        write_tree(store, {"new": Blob(b"new")})
        store.set_root("name", Root(digest))
        with store.build_lock(digest):
            pass


@ordinary_user
@pytest.mark.parametrize("room", ["tmp", "objects", "manifests", "locks", "temproots", "roots"])
def test_a_room_that_cannot_be_written_is_explained(store: Store, room: str) -> None:
    digest = write_text(store, "x")
    store.close()
    closed = store.path / room
    closed.chmod(0o555)
    try:
        with pytest.raises(UnfitEnvironmentError) as refusal:
            use(store.path, digest)
        assert "cannot be written" in refusal.value.what
        assert "Permission denied" in str(refusal.value.cause)
        assert refusal.value.exit_code == 5
    finally:
        closed.chmod(0o755)
    with Store.open(store.path) as again:
        again.collect_garbage()
    assert audit(store.path) == []


@ordinary_user
def test_a_store_of_somebody_else_is_explained(store: Store) -> None:
    write_text(store, "x")
    store.close()
    for path in store.path.glob("index.sqlite*"):
        path.unlink() if path.name != "index.sqlite" else path.chmod(0o444)
    store.path.chmod(0o555)
    try:
        with pytest.raises(UnfitEnvironmentError), Store.open(store.path) as again:
            write_text(again, "y")
    finally:
        store.path.chmod(0o755)


@ordinary_user
def test_a_store_cannot_be_made_where_one_may_not_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(UnfitEnvironmentError, match="cannot be written"):
            Store.open(tmp_path / "store")
    finally:
        tmp_path.chmod(0o755)


@ordinary_user
def test_an_unreadable_file_in_an_object_is_found(store: Store) -> None:
    digest = write_tree(store, {"f": Blob(b"x"), "d/g": Blob(b"y")})
    top = store.object_path(digest)
    (top / "f").chmod(0o000)
    (top / "d").chmod(0o000)
    found = {(problem.kind, problem.path) for problem in store.verify([digest], jobs=1).problems}
    assert found == {
        ("wrong mode", "f"),
        ("unreadable", "f"),
        ("wrong mode", "d"),
        ("unreadable", "d"),
    }


@ordinary_user
def test_an_unreadable_source_is_refused(store: Store, tmp_path: Path) -> None:
    source = tmp_path / "secret"
    source.write_bytes(b"secret")
    source.chmod(0o000)
    with store.new_tree() as tree, pytest.raises(InvalidInputError, match="Permission denied"):
        tree.ingest("f", source)


@ordinary_user
def test_a_result_link_cannot_be_made_where_one_may_not_write(store: Store, tmp_path: Path) -> None:
    place = tmp_path / "closed"
    place.mkdir(mode=0o555)
    with pytest.raises(InvalidInputError, match="cannot be made"):
        store.add_result_link(place / "result", Root(write_text(store, "x")))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_store_on_a_read_only_disk_is_explained(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        with Store.open(disk / "store") as store:
            digest = write_text(store, "x")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with (
            pytest.raises(UnfitEnvironmentError, match="cannot be written"),
            Store.open(disk / "store") as store,
        ):
            store.protect(digest)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
