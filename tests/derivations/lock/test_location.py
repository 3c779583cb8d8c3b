import json
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.lock.document import Lock
from dis_derivations.lock.location import LockLocation
from dis_derivations.manifest.reading import read_manifest_files
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError, UnfitEnvironmentError
from manifest_documents import smallest_manifest, write_json

LOCK = Lock(Sha256.of(b"m"), "2026-11-29T00:00:00Z", (), {})


def location(tmp_path: Path, **members: Any) -> LockLocation:
    path = write_json(tmp_path / "one.json", smallest_manifest(**members))
    return LockLocation.of(read_manifest_files(path))


def test_a_lock_is_beside_its_manifest_unless_the_manifest_says_where(tmp_path: Path) -> None:
    found = location(tmp_path)
    assert (found.path, found.embedded) == (tmp_path / "one.lock.json", None)


def test_a_declared_lockfile_is_relative_to_the_working_directory(tmp_path: Path) -> None:
    assert location(tmp_path, artifacts__lockfile="a/b.json").path == Path("a/b.json")


def test_a_lock_can_be_embedded_in_the_manifest_and_is_not_replaced_there(tmp_path: Path) -> None:
    embedded = location(tmp_path, artifacts__lockfile=json.loads(LOCK.encode()))
    data = embedded.read()
    assert data is not None
    assert Lock.decode(data, name="the embedded lock") == LOCK
    with pytest.raises(InvalidInputError, match="cannot be replaced"):
        embedded.write(LOCK.encode())


def test_what_is_written_is_read_back_and_nothing_else_is_left(tmp_path: Path) -> None:
    place = location(tmp_path)
    assert place.read() is None
    assert place.write(b"old") == tmp_path / "one.lock.json"
    place.write(b"new")
    assert place.read() == b"new"
    names = sorted(entry.name for entry in tmp_path.iterdir())
    assert names == ["one.json", "one.lock.json"]


def test_directories_of_a_lockfile_are_made(tmp_path: Path) -> None:
    LockLocation(tmp_path / "a/b/c.json").write(b"lock")
    assert (tmp_path / "a/b/c.json").read_bytes() == b"lock"


def test_a_lockfile_that_is_a_directory_is_refused_and_left_alone(tmp_path: Path) -> None:
    place = LockLocation(tmp_path / "lock")
    (tmp_path / "lock").mkdir()
    with pytest.raises(InvalidInputError, match="cannot be read"):
        place.read()
    with pytest.raises(UnfitEnvironmentError, match="cannot be written"):
        place.write(b"lock")
    assert [entry.name for entry in tmp_path.iterdir()] == ["lock"]


def test_a_lockfile_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnfitEnvironmentError, match="cannot be written"):
        LockLocation(tmp_path / "file/lock.json").write(b"lock")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        LockLocation(tmp_path / "file/lock.json").read()
    with pytest.raises(InvalidInputError, match="cannot be read"):
        LockLocation(Path("nul\x00byte")).read()
