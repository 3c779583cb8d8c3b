"""What is added gets its SHA-256 when somebody asks for it: read once, compared, and kept."""

import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dis_store import Digest, IntegrityError, Sha256, Store, add_path
from dis_store import opening as opening_module
from dis_store.writing.arrivals import take_stored

DATA = b"nobody has asked yet" * 1000
SHA256 = Sha256.of(DATA)
BLAKE3 = Digest.of(DATA)

Add = Callable[..., Digest]


@pytest.fixture
def add(store: Store, tmp_path: Path) -> Add:
    def add(data: bytes = DATA, name: str = "file", *, executable: bool = False) -> Digest:
        source = tmp_path / name
        source.write_bytes(data)
        source.chmod(0o755 if executable else 0o644)
        return add_path(store, source)

    return add


def in_index(store: Store, blake3: Digest = BLAKE3) -> str:
    with sqlite3.connect(store.path / "index.sqlite") as connection:
        ((found,),) = connection.execute("SELECT sha256 FROM files WHERE blake3 = ?", (blake3,))
    return str(found)


def spoil(store: Store, added: Digest, name: str = "file") -> None:
    path = store.object_path(added) / name
    path.chmod(0o644)
    path.write_bytes(b"X" + DATA[1:])


def refuse(_amount: int) -> None:
    pytest.fail("something was read")


def test_adding_computes_no_sha256(store: Store, add: Add) -> None:
    add()
    assert in_index(store) == ""


def test_a_moved_file_has_no_sha256_until_somebody_asks(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(DATA)
    add_path(store, tmp_path / "file", adopt=True)
    assert in_index(store) == ""
    assert store.sha256_of(BLAKE3) == SHA256


def test_the_first_question_reads_the_file_and_the_second_does_not(store: Store, add: Add) -> None:
    add()
    read: list[int] = []
    assert store.sha256_of(BLAKE3, read.append) == SHA256
    assert sum(read) == len(DATA)
    assert in_index(store) == SHA256
    assert store.sha256_of(BLAKE3, refuse) == SHA256


def test_an_executable_file_has_a_sha256_as_well(store: Store, add: Add) -> None:
    add(executable=True)
    assert store.sha256_of(BLAKE3) == SHA256
    assert not store.has_content(SHA256, len(DATA))


def test_a_content_that_the_store_lacks_has_none(store: Store) -> None:
    assert store.sha256_of(BLAKE3) is None
    assert not store.has_file(BLAKE3)
    assert not store.has_content(SHA256, len(DATA))


def test_a_file_is_found_by_its_sha256_and_size(store: Store, add: Add) -> None:
    add()
    add(bytes(len(DATA)), "of-the-same-size")
    assert store.has_file(BLAKE3)
    assert store.has_content(SHA256, len(DATA))
    assert in_index(store) == SHA256


def test_nothing_is_read_for_a_sha256_of_no_known_size(store: Store, add: Add) -> None:
    add()
    assert not store.has_content(SHA256, None)
    assert not store.has_content(SHA256, len(DATA) + 1)
    assert in_index(store) == ""
    store.sha256_of(BLAKE3)
    assert store.has_content(SHA256, None)


def test_a_damaged_file_has_no_sha256_and_is_named(store: Store, add: Add) -> None:
    added = add()
    spoil(store, added)
    with pytest.raises(IntegrityError, match=rf"^file of the object {added[:12]} has changed"):
        store.sha256_of(BLAKE3)
    assert not store.has_content(SHA256, len(DATA))
    assert in_index(store) == ""


def test_what_lies_in_the_place_of_a_file_is_not_followed(store: Store, add: Add) -> None:
    added = add()
    path = store.object_path(added) / "file"
    path.parent.chmod(0o755)
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(IntegrityError, match="has changed in the store"):
        store.sha256_of(BLAKE3)


def test_a_good_copy_is_read_where_another_is_damaged(store: Store, add: Add) -> None:
    first = add(name="one")
    add(name="two")
    path = store.object_path(first) / "one"
    path.parent.chmod(0o755)
    path.unlink()
    path.write_bytes(b"X" + DATA[1:])
    assert store.sha256_of(BLAKE3) == SHA256


def test_whoever_may_only_read_is_answered_and_changes_nothing(
    store: Store, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    add()
    store.close()
    monkeypatch.setattr(opening_module, "_may_only_be_read", lambda _: True)
    with Store.open(store.path, reading=True) as frozen:
        assert frozen.sha256_of(BLAKE3) == SHA256
        assert frozen.has_content(SHA256, len(DATA))
        assert not frozen.has_content(Sha256.of(b""), len(DATA))
    assert in_index(store) == ""


def test_a_sha256_that_comes_with_a_file_is_kept(store: Store, add: Add) -> None:
    add()
    with store.new_tree() as tree:
        tree.write_bytes("again", DATA)
        tree.register()
    assert in_index(store) == SHA256
    add(name="once-more")
    assert in_index(store) == SHA256


def test_a_file_that_is_taken_from_the_store_has_its_sha256_from_then_on(
    store: Store, add: Add
) -> None:
    add()
    with store.new_tree() as tree:
        written = take_stored(tree, "taken", BLAKE3, None)
        assert written is not None
        assert written.sha256 == SHA256
        tree.register()
    assert in_index(store) == SHA256


def test_a_file_is_taken_by_a_sha256_that_nobody_had_asked_for(store: Store, add: Add) -> None:
    added = add()
    with store.new_tree() as tree:
        assert take_stored(tree, "taken", SHA256, None) is None
        assert take_stored(tree, "taken", SHA256, len(DATA)) is not None
        taken = tree.register()
    assert (store.object_path(added) / "file").samefile(store.object_path(taken) / "taken")


def test_a_damaged_file_is_not_taken(store: Store, add: Add) -> None:
    spoil(store, add())
    with store.new_tree() as tree:
        assert take_stored(tree, "taken", BLAKE3, None) is None
        assert take_stored(tree, "taken", SHA256, len(DATA)) is None


def test_a_file_that_the_index_calls_by_a_wrong_sha256_is_not_taken(store: Store, add: Add) -> None:
    add()
    store.sha256_of(BLAKE3)
    with sqlite3.connect(store.path / "index.sqlite") as connection:
        connection.execute("UPDATE files SET sha256 = ?", (Sha256.of(b"other"),))
    read: list[int] = []
    with store.new_tree() as tree:
        assert take_stored(tree, "taken", Sha256.of(b"other"), len(DATA), read.append) is None
    assert sum(read) == 0


def test_a_repair_keeps_what_was_known(store: Store, add: Add) -> None:
    added = add()
    store.sha256_of(BLAKE3)
    (store.object_path(added) / "file").chmod(0o666)
    assert store.repair(store.verify(jobs=1).problems).repaired == (added,)
    assert in_index(store) == SHA256


def test_a_reindexing_computes_all(store: Store, add: Add) -> None:
    add()
    store.reindex()
    assert in_index(store) == SHA256


def test_a_named_pipe_in_the_place_of_a_file_is_not_waited_for(store: Store, add: Add) -> None:
    path = store.object_path(add()) / "file"
    path.parent.chmod(0o755)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(IntegrityError, match="no regular file"):
        store.sha256_of(BLAKE3)


def test_a_file_of_another_length_is_not_read(store: Store, add: Add) -> None:
    path = store.object_path(add()) / "file"
    path.chmod(0o644)
    os.truncate(path, len(DATA) + 1)
    with pytest.raises(IntegrityError, match=f"has {len(DATA) + 1} bytes"):
        store.sha256_of(BLAKE3, refuse)


def of_one_size(add: Add, count: int) -> list[bytes]:
    contents = [bytes([number]) * 1000 for number in range(count)]
    for data in contents:
        add(data)
    return contents


def test_a_few_files_of_a_size_are_read_for_each_question(store: Store, add: Add) -> None:
    """Many may have one size, and reading all of them would take longer than to fetch the one that is missing."""
    contents = of_one_size(add, 10)
    read: list[int] = []
    assert not store.has_content(Sha256.of(b"x"), 1000, read.append)
    assert sum(each for each in read if each > 0) == 4000
    assert sum(read) == 0
    # Those that came in last are the first to be looked at, and none is read a second time.
    assert [in_index(store, Digest.of(data)) != "" for data in contents] == [False] * 6 + [True] * 4
    assert store.has_content(Sha256.of(contents[9]), 1000, refuse)
    assert not store.has_content(Sha256.of(contents[0]), 1000)
    assert store.has_content(Sha256.of(contents[0]), 1000)


def test_threads_that_look_for_files_of_one_size_read_each_file_once(
    store: Store, add: Add
) -> None:
    contents = of_one_size(add, 4)
    read: list[int] = []
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(
            lambda data: store.has_content(Sha256.of(data), 1000, read.append), contents
        )
        assert all(found)
    assert sum(each for each in read if each > 0) == 4000


def test_whoever_asks_can_stop_it(store: Store, add: Add) -> None:
    add()

    def stop(_amount: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.has_content(SHA256, len(DATA), stop)
    assert store.has_content(SHA256, len(DATA))


def test_a_process_reads_a_damaged_file_once(store: Store, add: Add) -> None:
    spoil(store, add())
    read: list[int] = []
    assert not store.has_content(SHA256, len(DATA), read.append)
    assert sum(read) == 0
    assert not store.has_content(SHA256, len(DATA), refuse)


def test_what_is_read_for_a_question_counts_once(store: Store, add: Add) -> None:
    add()
    read: list[int] = []
    with store.new_tree() as tree:
        assert take_stored(tree, "taken", SHA256, len(DATA), read.append) is not None
    assert read == [len(DATA)]


def test_executable_files_are_found_by_name_and_not_taken(store: Store, add: Add) -> None:
    add(executable=True)
    assert not store.has_file(BLAKE3)
    assert not store.has_content(SHA256, len(DATA))
    add(name="another")
    assert store.has_file(BLAKE3)
    assert store.has_content(SHA256, len(DATA))


def test_a_file_that_is_executable_in_one_object_is_taken_from_another(
    store: Store, add: Add
) -> None:
    add(name="not-executable")
    add(executable=True)
    with store.new_tree() as tree:
        assert take_stored(tree, "taken", SHA256, len(DATA)) is not None


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=40), st.booleans()), min_size=1, max_size=6))
def test_every_file_has_its_sha256_whichever_way_it_came(
    contents: list[tuple[bytes, bool]],
) -> None:
    with TemporaryDirectory() as directory, Store.open(Path(directory) / "store") as store:
        for data, added in contents:
            if added:
                (Path(directory) / "file").write_bytes(data)
                add_path(store, Path(directory) / "file")
            else:
                with store.new_tree() as tree:
                    tree.write_bytes("file", data)
                    tree.register()
        for data, _ in contents:
            assert store.has_content(Sha256.of(data), len(data))
            assert store.sha256_of(Digest.of(data)) == Sha256.of(data)
