"""What lies about in a store beside what belongs there is no content of it."""

from pathlib import Path

from dis_store import Digest
from dis_store.sharded import digests_on_disk, names_by_shard, sharded_names, shards

ONE, TWO = sorted(Digest.of(data) for data in (b"one", b"two"))


def test_only_what_lies_in_the_shard_of_its_digest_is_found(tmp_path: Path) -> None:
    room, elsewhere = tmp_path / "room", tmp_path / "elsewhere"
    for directory in (room / ONE[:2], room / TWO[:2], elsewhere, room / "zz"):
        directory.mkdir(parents=True, exist_ok=True)
    (room / TWO[:2] / TWO).mkdir()
    (room / ONE[:2] / f"{ONE}.json").write_bytes(b"{}")
    assert digests_on_disk(room) == {
        ONE: room / ONE[:2] / f"{ONE}.json",
        TWO: room / TWO[:2] / TWO,
    }
    # Not a directory, one that leads elsewhere, no digest, and one in the shard of another.
    (room / "file").touch()
    (room / "link").symlink_to(elsewhere)
    (elsewhere / f"{ONE}.json").touch()
    (room / ONE[:2] / "notes.txt").touch()
    (room / "zz" / ONE).touch()
    assert set(digests_on_disk(room)) == {ONE, TWO}
    names = sorted({ONE[:2], TWO[:2], "zz"})
    assert shards(room) == [room / name for name in names]
    found = list(sharded_names(room))
    assert found == sorted(found)
    assert len(found) == 4
    assert [(shard.name, inner) for shard, inner in names_by_shard(room)] == [
        (name, sorted(path.name for path in found if path.parent.name == name)) for name in names
    ]
