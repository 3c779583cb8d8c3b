"""Equal files that do not share an inode."""

import os
import shutil
from pathlib import Path

import pytest

from auditing import audit
from dis_store import Store
from dis_store.writing import work_space
from processes import kill_self, killed_in
from trees import Blob, write_tree


def unshared_pair(store: Store) -> tuple[Path, Path]:
    """Return equal files of two objects, which share nothing."""
    one = write_tree(store, {"d/f": Blob(b"equal" * 100), "n": Blob(b"1")})
    two = write_tree(store, {"d/f": Blob(b"equal" * 100), "n": Blob(b"2")})
    shutil.rmtree(store.path / "links")
    (store.path / "links").mkdir()
    files = store.file_path(one, "d/f"), store.file_path(two, "d/f")
    split(files[1])
    return files


def split(file: Path) -> None:
    """Give a file an inode of its own."""
    file.parent.chmod(0o755)
    copy = file.with_name("copy")
    shutil.copy2(file, copy)
    os.utime(copy, ns=(1_000_000_000, 1_000_000_000))
    copy.replace(file)
    work_space.seal_directory(file.parent)


def test_equal_files_share_again(store: Store) -> None:
    one, two = unshared_pair(store)
    assert not one.samefile(two)
    report = store.optimise()
    assert (report.files, report.freed_bytes, report.damaged) == (1, 500, ())
    assert one.samefile(two)
    assert store.optimise().files == 0
    assert store.census().shared_bytes == 500
    assert audit(store.path) == []


def test_a_file_that_lies_is_told_and_left_alone(store: Store) -> None:
    one, two = unshared_pair(store)
    store.optimise()
    split(two)
    two.chmod(0o644)
    two.write_bytes(b"wrong" * 100)
    two.chmod(0o444)
    report = store.optimise()
    assert report.damaged == (two,)
    assert one.read_bytes() == b"equal" * 100


def test_a_file_with_a_name_outside_the_store_is_not_shared(store: Store, tmp_path: Path) -> None:
    one, two = unshared_pair(store)
    os.link(one, tmp_path / "outside")
    store.optimise()
    assert not one.samefile(two)
    # Now the other file is in `links/`, and takes the place of this one.
    store.optimise()
    assert one.samefile(two)
    assert not one.samefile(tmp_path / "outside")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_leaves_no_directory_writable(
    store: Store, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    one, two = unshared_pair(store)
    original = Path.replace

    def dying(self: Path, target: Path) -> Path:
        if target in (one, two):
            if moment == "after":
                original(self, target)
            kill_self()
        return original(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", dying)
        killed_in(lambda: Store.open(store.path).optimise())
    assert {(one.parent.stat().st_mode | two.parent.stat().st_mode) & 0o222} == {0o200}
    with Store.open(store.path) as again:
        assert again.verify().ok
        again.optimise()
    assert one.samefile(two)
    assert audit(store.path) == []


def test_a_census_counts_what_is_there(store: Store) -> None:
    assert (store.census().objects, store.census().bytes) == (0, 0)
    inner = write_tree(store, {"a": Blob(b"12345"), "b": Blob(b"12345")})
    write_tree(store, {"c": Blob(b"12345")}, {"r": (inner, None)})
    census = store.census()
    assert (census.objects, census.files, census.bytes, census.shared_bytes) == (2, 1, 15, 10)
    assert (census.roots, census.realisations, census.derivations, census.quarantined) == (0,) * 4
    assert census.index_bytes > 0
    assert census.free_bytes > 0
