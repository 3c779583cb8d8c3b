"""`--dry-run` says what would be done, with counts and bytes, and changes nothing."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import Dis, Realised
from run_shelf import make_writable

# What comes and goes with every command that opens a store, and holds nothing: see the formats of the store.
_PASSING = ("locks/", "temproots/", "index.sqlite-wal", "index.sqlite-shm")


def seen(*places: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Return all that there is below some directories: modes, links, times of change, content."""
    found: dict[str, tuple[int, int, int, bytes]] = {}
    for place in places:
        for path in (place, *place.rglob("*")):
            name = path.relative_to(place).as_posix()
            if not f"{name}/".startswith(_PASSING) and name != ".":
                status = path.lstat()
                content = path.read_bytes() if path.is_file() else b""
                found[str(path)] = (
                    status.st_mode,
                    status.st_nlink,
                    status.st_mtime_ns if content else 0,
                    content,
                )
    return found


@pytest.fixture
def place(own_store: Realised, tmp_path: Path) -> Iterator[Path]:
    """Return a working directory with a manifest, a model and an archive of closures."""
    directory = tmp_path / "place"
    shutil.copytree(own_store.config.parent, directory)
    os.chdir(directory)
    yield directory
    make_writable(tmp_path)


def lock(dis: Dis, *argv: str) -> Any:
    return dis("lock", "quickstart.json", *argv, "--dry-run", "--json").document


CASES: dict[str, tuple[str, ...]] = {
    "realize": ("realize", "quickstart.json"),
    "realize, named": ("realize", "quickstart.json", "--name", "new", "--out-link", "result"),
    "build": ("build", "quickstart.json", "--output", "closure.json"),
    "build, lock": ("build", "quickstart.json", "--update-lock"),
    "bundle": ("bundle", "first"),
    "lock": ("lock", "quickstart.json"),
    "lock, update": ("lock", "quickstart.json", "--update", "model.weight"),
    "add": ("store", "add", "quickstart", "--name", "model"),
    "add, adopt": ("store", "add", "quickstart", "--adopt"),
    "optimise": ("store", "optimise"),
    "gc": ("gc", "--keep-last", "0", "--drop-inputs"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_dry_run_changes_neither_the_store_nor_anything_else(
    dis: Dis, own_store: Realised, place: Path, case: str
) -> None:
    (place / "quickstart.lock.json").unlink(missing_ok=True)
    for step in ("list", "lock"):
        assert dis(step, *(["quickstart.json"] if step == "lock" else [])).code == 0
        before = seen(place, own_store.store)
        for form in ((), ("--json",)):
            outcome = dis(*CASES[case], "--dry-run", *form)
            assert outcome.code == 0, outcome.err
            assert outcome.out
            assert seen(place, own_store.store) == before
        found = outcome.document
        assert all(each["dry_run"] for each in (found if isinstance(found, list) else [found]))


def test_a_dry_run_of_an_import_changes_nothing_and_checks_every_byte(
    dis: Dis, realised: Realised, tmp_path: Path
) -> None:
    archive = tmp_path / "first.tar"
    assert dis("store", "export", "first", "--output", archive).code == 0
    other = ("--store", tmp_path / "other")
    assert dis("store", "stats", *other).code == 0
    before = seen(tmp_path / "other")
    planned = dis("store", "import", archive, "--dry-run", "--json", *other).document
    assert seen(tmp_path / "other") == before
    assert planned["new"] == planned["objects"] == len(planned["new_objects"]) > 1
    assert "would be imported" in dis("store", "import", archive, "--dry-run", *other).out
    data = bytearray(archive.read_bytes())
    data[-2000] ^= 1
    (tmp_path / "damaged.tar").write_bytes(data)
    outcome = dis("store", "import", tmp_path / "damaged.tar", "--dry-run", *other)
    outcome.check_one_block()
    assert outcome.code in {2, 4}
    done = dis("store", "import", archive, "--json", *other).document
    assert (done["roots"], done["new"]) == (planned["roots"], planned["new"])
    again = dis("store", "import", archive, "--dry-run", "--json", *other).document
    assert (again["new"], again["bytes"]) == (0, planned["bytes"])
    make_writable(tmp_path / "other")


def test_a_dry_run_of_a_bundle_counts_what_is_packed(
    dis: Dis, realised: Realised, tmp_path: Path
) -> None:
    planned = dis("bundle", "first", "--dry-run", "--json").document
    done = dis("bundle", "first", "--json").document
    assert {name: planned[name] for name in ("path", "bundle")} == {
        name: done[name] for name in ("path", "bundle")
    }
    files = [path for path in Path(realised.first).rglob("*") if path.is_file()]
    assert planned["files"] >= len(files)
    assert planned["size"] >= sum(path.stat().st_size for path in files)
    (tmp_path / done["path"]).write_text("mine", encoding="utf-8")
    assert "is there already" in dis("bundle", "first", "--dry-run").err


def test_a_dry_run_of_a_lock_counts_what_is_read(dis: Dis, place: Path) -> None:
    (place / "quickstart.lock.json").unlink(missing_ok=True)
    nothing_yet = lock(dis)
    assert nothing_yet["written"] is True
    assert nothing_yet["kept"] == 0
    done = dis("lock", "quickstart.json", "--json").document["artifacts"]
    sizes = {(each["name"], each["path"]): each["size"] for each in done}
    reads = {(each["name"], each["path"]): each["size"] for each in nothing_yet["reads"]}
    assert reads == sizes
    assert nothing_yet["bytes"] == sum(sizes.values())
    locked = lock(dis)
    assert (locked["reads"], locked["written"], locked["kept"]) == ([], False, len(done))
    one = lock(dis, "--update", "model.weight")
    assert [each["name"] for each in one["reads"]] == ["model.weight"]
    assert (one["written"], one["kept"]) == (True, len(done) - 1)


@pytest.mark.parametrize("command", [("lock",), ("build",)])
def test_a_dry_run_refuses_what_the_command_refuses(
    dis: Dis, place: Path, command: tuple[str, ...]
) -> None:
    document = json.loads((place / "quickstart.json").read_bytes())
    document["inference"]["n_promts"] = 1
    (place / "quickstart.json").write_text(json.dumps(document), encoding="utf-8")
    outcome = dis(*command, "quickstart.json", "--dry-run")
    outcome.check_one_block()
    assert outcome.code == 2


def test_a_dry_run_of_an_addition_says_what_moves_and_what_is_copied(dis: Dis, place: Path) -> None:
    (place / "both").mkdir()
    (place / "both" / "alone").write_bytes(b"1" * 10)
    (place / "both" / "linked").write_bytes(b"2" * 20)
    (place / "elsewhere").hardlink_to(place / "both" / "linked")
    argv = ("store", "add", "both", "--dry-run")
    (copied,) = dis(*argv, "--json").document
    assert copied == {"source": "both", "dry_run": True, "files": 2, "bytes": 30, "moved": 0}
    assert dis(*argv, "--adopt", "--json").document[0]["moved"] == 1
    assert "of which 1 copied and removed" in dis(*argv, "--adopt").out
    (place / "both" / "link").symlink_to("alone")
    outcome = dis(*argv)
    outcome.check_one_block()
    assert outcome.code == 2


def test_a_dry_run_of_an_optimisation_foretells_what_is_freed(
    dis: Dis, own_store: Realised, tmp_path: Path
) -> None:
    (tmp_path / "one").write_bytes(b"same" * 5000)
    shutil.copyfile(tmp_path / "one", tmp_path / "two")
    for name in ("one", "two"):
        assert dis("store", "add", tmp_path / name, "--name", name).code == 0
    assert dis("store", "optimise").code == 0  # the store is a copy, in which nothing is shared
    _unshare(own_store.store, b"same" * 5000)
    planned = dis("store", "optimise", "--dry-run", "--json").document
    assert planned["files"] == 1
    assert planned["freed_bytes"] == 20_000
    assert dis("store", "optimise", "--dry-run", "--json").document == planned
    done = dis("store", "optimise", "--json").document
    assert {**done, "dry_run": True} == planned
    assert dis("store", "optimise", "--dry-run", "--json").document["files"] == 0


def _unshare(store: Path, content: bytes) -> None:
    """Give one of two equal files of the store an inode of its own, as a store has that was copied file by file."""
    one = next(
        path
        for path in sorted(store.glob("objects/*/*/*"))
        if path.is_file() and path.read_bytes() == content
    )
    directory, mode = one.parent, one.parent.stat().st_mode
    directory.chmod(0o755)
    copy = directory / ".copy"
    copy.write_bytes(content)
    copy.chmod(one.stat().st_mode)
    os.utime(copy, ns=(one.stat().st_atime_ns, one.stat().st_mtime_ns))
    copy.replace(one)
    directory.chmod(mode)


REFUSING: dict[str, Callable[[Path], tuple[str, ...]]] = {
    "no run": lambda _: ("bundle", "nothing"),
    "no archive": lambda place: ("bundle", "first", "--output", str(place / "x.zip")),
    "a directory": lambda place: ("bundle", "first", "--output", str(place / "d.tar.gz")),
}


@pytest.mark.parametrize("case", REFUSING)
def test_a_dry_run_of_a_bundle_refuses_what_the_command_refuses(
    dis: Dis, place: Path, case: str
) -> None:
    (place / "d.tar.gz").mkdir()
    outcome = dis(*REFUSING[case](place), "--dry-run")
    outcome.check_one_block()
    assert outcome.code == 2


@pytest.mark.parametrize(
    "path",
    [
        "realize", "build", "bundle", "lock", "gc", "push", "pull", "bisect", "probe",
        "store add", "store import", "store optimise",
    ],
)  # fmt: skip
def test_every_command_that_writes_sends_or_frees_much_has_a_dry_run(dis: Dis, path: str) -> None:
    """Those that docs/reference/conventions.md lists."""
    assert "--dry-run" in dis(*path.split(), "--help").out
