"""Files and directories of a store that nobody may change, nor root: `chattr +i`, as administrators protect things.

Whoever comes to one says which it is and how to let it be changed; nothing is lost, and what was said is enough.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from auditing import audit
from dis_store import Digest, Root, Store
from disks import EXT4, be_able_to_mount, mounted
from forked_commands import Caller, Ended
from trees import Blob, write_tree

pytestmark = pytest.mark.stress
KEPT = {"d/x": Blob(b"kept"), "shared": Blob(b"in both")}
_HINT = re.compile(r"chattr -(i) (/\S+)$")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system that knows these attributes, mounted once for all tests."""
    be_able_to_mount("mkfs.ext4", "losetup", "chattr")
    place = tmp_path_factory.mktemp("ext4")
    EXT4.make(place / "image")
    (place / "disk").mkdir()
    with mounted(place / "image", place / "disk", EXT4):
        yield place / "disk"
        subprocess.run(["chattr", "-R", "-f", "-i", place / "disk"], check=False)


class Filled:
    """A store with an object that is kept, and one that is garbage."""

    def __init__(self, path: Path, caller: Caller) -> None:
        self.path = path
        self.call = replace(caller, store=path)
        with Store.open(path) as store:
            self.kept = write_tree(store, KEPT)
            store.set_root("kept", Root(self.kept))
            garbage = {"d/x": Blob(b"garbage"), "shared": KEPT["shared"]}
            self.garbage = write_tree(store, garbage)

    def tree(self, digest: Digest) -> Path:
        return self.path / "objects" / digest[:2] / digest

    def manifest(self, digest: Digest) -> Path:
        return self.path / "manifests" / digest[:2] / f"{digest}.json"

    def damage(self) -> None:
        """Change a byte of the object that is kept."""
        file = self.tree(self.kept) / "d/x"
        file.chmod(0o644)
        file.write_bytes(b"kepT")
        file.chmod(0o444)

    def check_kept(self, *, damaged: bool) -> None:
        """See that both files of the kept object are still somewhere."""
        found = {
            path.read_bytes()
            for room in ("objects", "quarantine")
            for path in (self.path / room).rglob("*")
            if path.is_file()
        }
        assert {b"kepT" if damaged else b"kept", b"in both"} <= found


Place = Callable[[Filled], Path]
IN_GARBAGE: dict[str, Place] = {
    "a file of it": lambda store: store.tree(store.garbage) / "d/x",
    "a file that another object shares": lambda store: store.tree(store.garbage) / "shared",
    "a directory in it": lambda store: store.tree(store.garbage) / "d",
    "its directory": lambda store: store.tree(store.garbage),
    "the directory above it": lambda store: store.tree(store.garbage).parent,
    "its manifest": lambda store: store.manifest(store.garbage),
    "the trash": lambda store: store.path / "trash",
    "the index": lambda store: store.path / "index.sqlite",
}
DAMAGED: dict[str, Place] = {
    "its directory": lambda store: store.tree(store.kept),
    "the directory above it": lambda store: store.tree(store.kept).parent,
    "its manifest": lambda store: store.manifest(store.kept),
    "the index": lambda store: store.path / "index.sqlite",
}
ROOMS: dict[str, Place] = {
    "where objects are made": lambda store: store.path / "tmp",
    "where objects are": lambda store: store.path / "objects",
    "where manifests are": lambda store: store.path / "manifests",
    "the index": lambda store: store.path / "index.sqlite",
}


@pytest.fixture
def filled(disk: Path, caller: Caller, request: pytest.FixtureRequest) -> Filled:
    name = re.sub(r"\W+", "-", request.node.name)
    return Filled(disk / name, caller)


def refused(store: Filled, place: Path, argv: Sequence[str | Path]) -> Ended:
    """Call while a place cannot be changed; then do what the refusal says, and call again."""
    subprocess.run(["chattr", "+i", place], check=True)
    ended = store.call(*argv)
    assert ended.code == 5, ended
    assert ended.untold is None, ended
    (error,) = (
        event["error"]
        for event in map(json.loads, ended.err.splitlines())
        if event["event"] == "error"
    )
    hint = _HINT.search(error["hint"])
    assert hint is not None, error
    assert hint[2] in error["cause"]
    # What is read can be read all the same.
    assert store.call("root", "list").code == 0
    subprocess.run(["chattr", f"-{hint[1]}", hint[2]], check=True)
    return store.call(*argv)


@pytest.mark.parametrize("place", IN_GARBAGE)
def test_a_collection_that_may_not_delete_something_says_what_and_can_be_made_again(
    filled: Filled, place: str
) -> None:
    ended = refused(filled, IN_GARBAGE[place](filled), ["gc"])
    assert ended.code == 0, ended
    filled.check_kept(damaged=False)
    assert not filled.tree(filled.garbage).exists()
    assert not any((filled.path / "trash").iterdir())
    assert audit(filled.path) == []


@pytest.mark.parametrize("place", ROOMS)
def test_an_addition_that_may_not_write_somewhere_says_where_and_can_be_made_again(
    filled: Filled, tmp_path: Path, place: str
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "f").write_bytes(b"new")
    ended = refused(filled, ROOMS[place](filled), ["store", "add", source])
    assert ended.code == 0, ended
    assert (Path(ended.out.strip()) / "f").read_bytes() == b"new"
    assert (source / "f").read_bytes() == b"new"
    filled.check_kept(damaged=False)
    assert audit(filled.path) == []


def test_a_file_that_nobody_may_change_is_not_moved_into_the_store(
    filled: Filled, disk: Path
) -> None:
    source = disk / "to-be-moved"
    source.mkdir()
    (source / "f").write_bytes(b"new")
    subprocess.run(["chattr", "+i", source / "f"], check=True)
    ended = filled.call("store", "add", "--adopt", source)
    assert ended.code == 2, ended
    assert ended.untold is None, ended
    assert str(source / "f") in ended.err
    assert f"chattr -i {source / 'f'}" in ended.err
    assert filled.call("store", "add", source).code == 0
    subprocess.run(["chattr", "-i", source / "f"], check=True)
    assert filled.call("store", "add", "--adopt", source).code == 0
    assert not source.exists()
    assert audit(filled.path) == []


def test_files_that_may_get_no_second_name_are_copied(filled: Filled, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "f").write_bytes(KEPT["shared"].data)
    kept = filled.tree(filled.kept) / "shared"
    subprocess.run(["chattr", "+i", kept], check=True)
    try:
        ended = filled.call("store", "add", source)
        assert ended.code == 0, ended
        assert not (Path(ended.out.strip()) / "f").samefile(kept)
        assert filled.call("store", "optimise").code == 0
    finally:
        subprocess.run(["chattr", "-i", kept], check=True)
    assert audit(filled.path) == []
    assert filled.call("store", "optimise").code == 0
    assert (Path(ended.out.strip()) / "f").samefile(kept)


@pytest.mark.parametrize("place", DAMAGED)
def test_a_repair_that_may_not_replace_something_says_what_and_can_be_made_again(
    filled: Filled, tmp_path: Path, place: str
) -> None:
    filled.damage()
    donor = tmp_path / "donor"
    donor.write_bytes(KEPT["d/x"].data)
    argv: list[str | Path] = ["store", "verify", "--all", "--repair", "--from", donor]
    ended = refused(filled, DAMAGED[place](filled), argv)
    assert ended.code == 0, ended
    assert (filled.tree(filled.kept) / "d/x").read_bytes() == b"kept"
    assert filled.call("store", "verify", "--all").code == 0
    assert beside_quarantine(filled.path) == []


@pytest.mark.parametrize("argv", [["store", "verify", "--all", "--repair"], ["store", "reindex"]])
@pytest.mark.parametrize("place", DAMAGED)
def test_what_is_damaged_and_cannot_be_set_aside_is_not_lost(
    filled: Filled, place: str, argv: list[str]
) -> None:
    filled.damage()
    ended = refused(filled, DAMAGED[place](filled), argv)
    # The call that failed may have set it aside before it came to what it could not change.
    assert ended.code in (0, 4), ended
    filled.check_kept(damaged=True)
    # Had it become garbage, this would have deleted it.
    filled.call("gc")
    filled.check_kept(damaged=True)
    assert not filled.tree(filled.kept).exists()


def beside_quarantine(store: Path) -> list[str]:
    """Leave out that something was set aside."""
    return [each for each in audit(store) if not each.startswith("quarantine/")]
