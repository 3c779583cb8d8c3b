"""Hashing by a process that maps files: the same digests, and an error instead of a dead process."""

import os
import signal
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dis_store import Digest, Store
from dis_store.integrity import mapped_reader
from dis_store.integrity.mapped_hashing import MappedHasher
from trees import Blob, write_tree

MIB = 1 << 20


def digest_of(data: bytes) -> Digest:
    return Digest(blake3(data).hexdigest())


@pytest.fixture
def large(tmp_path: Path) -> Path:
    file = tmp_path / "large"
    file.write_bytes(os.urandom(mapped_reader.PIECE_BYTES + 12_345))
    return file


@given(st.binary(max_size=10_000))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30
)
def test_a_mapped_file_has_the_digest_of_its_bytes(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    with MappedHasher(threads=2) as hasher:
        assert hasher.digest_of(file) == digest_of(data)


def test_one_process_hashes_many_files_and_tells_each_byte_once(large: Path) -> None:
    told: list[int] = []
    other = large.with_name("other\nwith a newline")
    other.write_bytes(b"other")
    with MappedHasher(threads=2) as hasher:
        assert hasher.digest_of(large, told.append) == digest_of(large.read_bytes())
        assert hasher.digest_of(other, told.append) == digest_of(b"other")
    assert told == [mapped_reader.PIECE_BYTES, 12_345, 5]


def test_what_cannot_be_read_is_an_error_and_the_next_file_is_hashed(
    tmp_path: Path, large: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(large)
    with MappedHasher(threads=1) as hasher:
        assert isinstance(hasher.digest_of(tmp_path / "nothing"), FileNotFoundError)
        assert isinstance(hasher.digest_of(link), OSError)
        assert isinstance(hasher.digest_of(tmp_path), OSError)
        assert hasher.digest_of(large) == digest_of(large.read_bytes())


def test_a_reader_that_is_killed_costs_time_and_nothing_else(large: Path) -> None:
    told: list[int] = []

    def kill_at_the_first_piece(amount: int) -> None:
        told.append(amount)
        if len(told) == 1:
            assert hasher._reader is not None
            os.kill(hasher._reader._process.pid, signal.SIGBUS)

    with MappedHasher(threads=1) as hasher:
        expected = digest_of(large.read_bytes())
        assert hasher.digest_of(large, kill_at_the_first_piece) == expected
        assert sum(told) == large.stat().st_size
        assert hasher.digest_of(large) == expected


def test_without_another_process_files_are_read_in_this_one(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dis_store.integrity.mapped_hashing.sys.executable", "/nowhere/python")
    with MappedHasher(threads=2) as hasher:
        assert hasher.digest_of(large) == digest_of(large.read_bytes())


def test_verification_maps_large_files_and_finds_one_changed_byte(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dis_store.integrity.hash_pool._LARGE_BYTES", MIB)
    monkeypatch.setattr("dis_store.integrity.hash_pool._WORTH_MAPPING_BYTES", 2 * MIB)
    digest = write_tree(
        store, {"one": Blob(b"1" * MIB), "two": Blob(b"2" * MIB), "small": Blob(b"3")}
    )
    amounts: list[int] = []
    report = store.verify(jobs=2, progress=lambda amount, _: amounts.append(amount))
    assert report.ok
    assert sum(amounts) == report.bytes == 2 * MIB + 1
    file = store.file_path(digest, "two")
    file.chmod(0o644)
    with file.open("r+b") as opened:
        opened.seek(MIB - 1)
        opened.write(b"!")
    file.chmod(0o444)
    assert [(each.kind, each.path) for each in store.verify(jobs=2).problems] == [
        ("changed", "two")
    ]
