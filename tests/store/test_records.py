"""Small records are there whole, and on the disk, when the call that wrote them returns."""

import json

import pytest

from dis_store import IntegrityError, Store
from dis_store.records import decode_record, encode_record, write_record, write_records
from waits import watch_waits


def test_many_records_are_waited_for_together_and_then_named(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = store.path / "realisations"
    records = {room / "ab" / f"{number}.json": b"%d" % number for number in range(3)}
    records[room / "cd" / "deep" / "x.json"] = b"x"
    waits = watch_waits(monkeypatch, records)
    write_records(store._foundation, records)
    assert {path: path.read_bytes() for path in records} == records
    for path in records:
        inode = path.stat().st_ino
        # Once, while nobody could see it under its name, and after that the directory that names it.
        assert [wait.named for wait in waits if wait.inode == inode] == [frozenset()]
        assert any(wait.inode == path.parent.stat().st_ino and path in wait.named for wait in waits)
    assert list((store.path / "tmp").iterdir()) == []


def test_a_record_is_on_the_disk_before_its_name_and_its_name_before_the_call_returns(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store.path / "roots" / "name.json"
    waits = watch_waits(monkeypatch, [path])
    write_record(store._foundation, path, b"data")
    assert path.read_bytes() == b"data"
    assert path.stat().st_mode & 0o777 == 0o444
    first, *_, last = waits
    assert (first.inode, first.named) == (path.stat().st_ino, frozenset())
    assert (last.inode, last.named) == (path.parent.stat().st_ino, frozenset({path}))


def test_the_shards_of_records_stay_and_the_directory_of_a_key_is_waited_for_each_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = store.path / "realisations"
    shard = room / "ab"
    waits = watch_waits(monkeypatch, [])
    write_record(store._foundation, shard / "key" / "1.json", b"1")
    assert {room.stat().st_ino, shard.stat().st_ino} <= {wait.inode for wait in waits}
    waits.clear()
    write_record(store._foundation, shard / "key" / "2.json", b"2")
    seen = {wait.inode for wait in waits}
    # A collection may have removed it, and somebody may have made it again and died before it was on the disk.
    assert shard.stat().st_ino in seen
    assert room.stat().st_ino not in seen


@pytest.mark.parametrize(
    ("oldest", "found", "is_read"),
    [
        (None, 2, True),
        (None, 1, False),
        (None, 3, False),
        (None, True, False),
        (None, "2", False),
        (None, 2.0, False),
        (None, None, False),
        (1, 1, True),
        (1, 2, True),
        (1, 0, False),
        (1, 3, False),
        (1, True, False),
    ],
)
def test_only_formats_that_are_known_are_read(
    oldest: int | None, found: object, is_read: bool
) -> None:
    data = json.dumps({"type": "kind", "format": found}).encode()
    if is_read:
        document = decode_record(data, kind="kind", version=2, name="it", oldest=oldest)
        assert document["format"] == found
        return
    with pytest.raises(IntegrityError, match="it cannot be read"):
        decode_record(data, kind="kind", version=2, name="it", oldest=oldest)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"type":"other","format":2}', b'"kind"'])
def test_what_is_no_record_of_the_kind_is_called_damaged(data: bytes) -> None:
    with pytest.raises(IntegrityError, match="it is damaged"):
        decode_record(data, kind="kind", version=2, name="it")


def test_a_record_says_what_it_is() -> None:
    data = encode_record("kind", 2, {"b": 1, "a": None})
    assert data == b'{"a":null,"b":1,"format":2,"type":"kind"}'
    assert decode_record(data, kind="kind", version=2, name="it") == json.loads(data)
