"""Long readings tell how many bytes they have read."""

from pathlib import Path

import pytest

from dis_store import Store
from dis_store.hashing import CHUNK_BYTES
from trees import Blob, write_tree

SIZE = 3 * CHUNK_BYTES + 5


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(bytes(range(256)) * (SIZE // 256) + b"\x00" * (SIZE % 256))
    return path


def test_taking_a_file_tells_of_each_piece(store: Store, source: Path) -> None:
    pieces: list[int] = []
    with store.new_tree() as tree:
        tree.ingest("file", source, on_bytes=pieces.append)
    assert sum(pieces) == SIZE
    assert len(pieces) > 3


def test_whoever_counts_may_end_the_taking_of_a_file(store: Store, source: Path) -> None:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with store.new_tree() as tree:
        with pytest.raises(KeyboardInterrupt):
            tree.ingest("file", source, on_bytes=stop)
        tree.ingest("file", source)
        assert store.is_valid(tree.register())


def test_a_verification_tells_what_it_has_read_and_what_there_is(store: Store) -> None:
    write_tree(store, {"large": Blob(b"x" * SIZE), "small": Blob(b"y")})
    write_tree(store, {"again": Blob(b"y")})
    told: list[tuple[int, int]] = []
    report = store.verify(jobs=2, progress=lambda *step: told.append(step))
    assert told[0] == (0, report.bytes)
    assert {total for _, total in told} == {report.bytes}
    assert sum(amount for amount, _ in told) == report.bytes == SIZE + 1
