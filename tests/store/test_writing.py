import hashlib
import io
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from auditing import audit
from dis_store import (
    Digest,
    IntegrityError,
    InvalidInputError,
    Sha256,
    Store,
    Tree,
    UnfitEnvironmentError,
)
from trees import TREES, Blob, Files, write_text, write_tree

BIG = 5 << 20  # enough for SHA-256 to move to a thread of its own


def test_a_written_file_reports_size_and_both_digests(store: Store) -> None:
    with store.new_tree() as tree:
        written = tree.write_bytes("a/tool", b"hello", executable=True)
        digest = tree.register()
    assert (written.path, written.size, written.executable) == ("a/tool", 5, True)
    assert written.blake3 == Digest.of(b"hello")
    assert written.sha256 == Sha256.of(b"hello")
    assert store.sha256_of(written.blake3) == written.sha256
    assert store.read_bytes(digest, "a/tool") == b"hello"


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50
)
@given(TREES)
def test_any_tree_round_trips(shared_store: Store, files: Files) -> None:
    digest = write_tree(shared_store, files)
    found = {
        file.path: Blob(file.real.read_bytes(), file.executable)
        for file in shared_store.files(digest)
    }
    assert found == dict(files)
    assert shared_store.tree(digest).digest == digest
    assert shared_store.object_size(digest) == sum(len(blob.data) for blob in files.values())


def test_the_store_of_the_property_is_sound(shared_store: Store) -> None:
    write_tree(shared_store, {"a": Blob(b"x")})
    assert audit(shared_store.path) == []


def test_content_of_any_length_is_hashed_right(store: Store) -> None:
    for size in (0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, BIG):
        data = os.urandom(size)
        with store.new_tree() as tree, tree.create("file") as file:
            for start in range(0, size, 300_000):
                file.write(data[start : start + 300_000])
            written = file.close()
        assert written.size == size
        assert written.blake3 == Digest.of(data)
        assert written.sha256 == Sha256.of(data)


def test_what_a_caller_changes_after_writing_is_not_written(store: Store) -> None:
    with store.new_tree() as tree:
        with tree.create("file") as file:
            buffer = bytearray(b"x" * BIG)
            file.write(buffer)
            buffer[:] = b"y" * BIG
            file.write(memoryview(b"z"))
        digest = tree.register()
    assert store.read_bytes(digest, "file") == b"x" * BIG + b"z"
    assert file.written.sha256 == Sha256.of(b"x" * BIG + b"z")


def test_an_object_is_read_only_and_without_times(store: Store) -> None:
    other = write_text(store, "other")
    digest = write_tree(
        store, {"d/f": Blob(b"f"), "d/x": Blob(b"x", executable=True)}, {"r": (other, None)}
    )
    top = store.object_path(digest)
    modes = {
        str(path.relative_to(top)): stat.S_IMODE(path.lstat().st_mode)
        for path in [top, *top.rglob("*")]
        if not path.is_symlink()
    }
    assert modes == {".": 0o555, "d": 0o555, "d/f": 0o444, "d/x": 0o555}
    assert {path.lstat().st_mtime for path in [top, *top.rglob("*")]} == {1}


def test_what_is_not_registered_leaves_nothing(store: Store) -> None:
    with store.new_tree() as tree:
        tree.write_bytes("deep/down/file", b"data")
        tree.create("unfinished").write(b"x" * BIG)
    assert audit(store.path) == []
    assert list(store.path.joinpath("tmp").iterdir()) == []
    assert store.objects() == []


def test_what_an_error_interrupts_leaves_nothing(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.new_tree() as tree:  # noqa: PT012 - a block is what it is about
        tree.write_bytes("file", b"data")
        raise ZeroDivisionError
    assert audit(store.path) == []


def test_a_file_that_is_given_up_frees_its_path_and_directories(store: Store) -> None:
    with store.new_tree() as tree:
        with pytest.raises(ZeroDivisionError), tree.create("only/here/file") as file:  # noqa: PT012 - as above
            file.write(b"half")
            raise ZeroDivisionError
        tree.write_bytes("other", b"data")
        digest = tree.register()
    assert [entry.path for entry in store.tree(digest).entries] == ["other"]
    assert audit(store.path) == []


def test_a_path_can_be_written_again_after_it_was_given_up(store: Store) -> None:
    with store.new_tree() as tree:
        with pytest.raises(IntegrityError):
            tree.write_stream("file", io.BytesIO(b"wrong"), sha256=Sha256.of(b"right"))
        tree.write_stream("file", io.BytesIO(b"right"), sha256=Sha256.of(b"right"))
        digest = tree.register()
    assert store.read_bytes(digest, "file") == b"right"


def test_a_stream_that_is_longer_than_expected_is_not_read_to_its_end(store: Store) -> None:
    source = io.BytesIO(b"x" * (3 << 20))
    with store.new_tree() as tree, pytest.raises(IntegrityError, match="more than 10 bytes"):
        tree.write_stream("file", source, size=10)
    assert source.tell() < 3 << 20


def test_a_stream_that_is_shorter_than_expected_is_refused(store: Store) -> None:
    with store.new_tree() as tree, pytest.raises(IntegrityError, match="3 bytes, not 10"):
        tree.write_stream("file", io.BytesIO(b"abc"), size=10)


def test_another_digest_than_expected_is_refused(store: Store) -> None:
    wrong = Digest.of(b"something else")
    with store.new_tree() as tree:
        tree.write_bytes("file", b"data")
        with pytest.raises(IntegrityError, match="not what was expected"):
            tree.register(expected=wrong)
    assert store.objects() == []


def test_an_unfinished_file_cannot_be_registered(store: Store) -> None:
    with store.new_tree() as tree:
        tree.create("unfinished")
        with pytest.raises(InvalidInputError, match="unfinished"):
            tree.register()


def test_a_registered_tree_takes_no_more(store: Store) -> None:
    with store.new_tree() as tree:
        tree.register()
        with pytest.raises(InvalidInputError, match="registered"):
            tree.write_bytes("late", b"")
    with pytest.raises(InvalidInputError, match="not open"):
        tree.write_bytes("later", b"")


def test_a_closed_file_takes_no_more(store: Store) -> None:
    with store.new_tree() as tree:
        file = tree.create("file")
        assert file.close() is file.close()
        with pytest.raises(InvalidInputError, match="closed"):
            file.write(b"late")


def test_a_file_that_was_given_up_has_no_digest(store: Store) -> None:
    with store.new_tree() as tree:
        file = tree.create("file")
        file.abandon()
        with pytest.raises(InvalidInputError, match="not finished"):
            file.close()


@pytest.mark.parametrize(
    "path", ["../outside", "/absolute", "a/../../b", "C:\\x", "e\u0301", "nul"]
)
def test_a_hostile_path_is_refused_before_anything_is_written(store: Store, path: str) -> None:
    with store.new_tree() as tree:
        for attempt in (
            lambda: tree.write_bytes(path, b"evil"),
            lambda: tree.write_stream(path, io.BytesIO(b"evil")),
            lambda: tree.ingest(path, Path(__file__)),
            lambda: tree.create(path),
            lambda: tree.reference(path, Digest.of(b"evil")),
        ):
            with pytest.raises((InvalidInputError, IntegrityError)):
                attempt()
        digest = tree.register()
    assert store.tree(digest).entries == ()
    assert audit(store.path) == []


def test_a_collision_is_refused_when_the_second_path_comes(store: Store) -> None:
    with store.new_tree() as tree:
        tree.write_bytes("Readme", b"")
        for path in ("README", "Readme", "Readme/below"):
            with pytest.raises(InvalidInputError):
                tree.write_bytes(path, b"")
        assert len(store.tree(tree.register()).entries) == 1


def test_names_of_other_people_can_be_registered_when_that_is_recorded(store: Store) -> None:
    with store.new_tree(portable_names=False) as tree:
        for path in ("Makefile", "makefile", "aux.py"):
            tree.write_bytes(path, path.encode())
        digest = tree.register()
    assert not store.tree(digest).portable_names
    assert store.read_bytes(digest, "aux.py") == b"aux.py"
    assert audit(store.path) == []


def test_several_threads_can_write_one_tree(store: Store) -> None:
    errors: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for file in range(20):
                tree.write_bytes(f"shared/{file}/{number}", f"{number}.{file}".encode())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test reports it
            errors.append(error)

    with store.new_tree() as tree:
        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        digest = tree.register()
    assert errors == []
    assert len(store.files(digest)) == 80
    assert audit(store.path) == []


def test_a_tree_that_cannot_fit_is_refused_before_it_is_written(store: Store) -> None:
    with pytest.raises(UnfitEnvironmentError) as refusal, store.new_tree(expected_bytes=1 << 60):
        pass
    assert "dis gc" in str(refusal.value.hint)
    with store.new_tree() as tree, pytest.raises(UnfitEnvironmentError):
        tree.write_stream("file", io.BytesIO(b""), size=1 << 60)


def test_a_chain_of_references_is_followed(store: Store) -> None:
    first = write_tree(store, {"dir/file": Blob(b"deep"), "dir/sub/other": Blob(b"o")})
    second = write_tree(store, {}, {"link": (first, "dir"), "whole": (first, None)})
    third = write_tree(store, {}, {"again": (second, "link"), "file": (first, "dir/file")})
    assert store.read_bytes(third, "again/file") == b"deep"
    assert store.read_bytes(third, "again/sub/other") == b"o"
    assert store.read_bytes(third, "file") == b"deep"
    assert (store.object_path(third) / "again" / "file").read_bytes() == b"deep"
    assert [file.path for file in store.files(third)] == ["again/file", "again/sub/other", "file"]
    assert {file.owner for file in store.files(third)} == {first}
    assert store.closure([third]) == [first, second, third]
    assert store.closure_size(third) == 5
    assert audit(store.path) == []


@pytest.mark.parametrize(
    "path", ["", "nothing", "link", "whole/nothing", "link/file/below", "whole/dir"]
)
def test_what_is_no_file_has_no_path(store: Store, path: str) -> None:
    first = write_tree(store, {"dir/file": Blob(b"deep")})
    second = write_tree(store, {}, {"link": (first, "dir"), "whole": (first, None)})
    with pytest.raises(InvalidInputError):
        store.file_path(second, path)


def test_a_reference_to_what_is_not_there_is_refused(store: Store) -> None:
    first = write_tree(store, {"dir/file": Blob(b"deep")})
    second = write_tree(store, {}, {"link": (first, "dir")})
    with store.new_tree() as tree:
        with pytest.raises(IntegrityError):
            tree.reference("a", Digest.of(b"nothing"))
        # The last one leads through a reference of the target, which is no part of its own manifest.
        for digest, subpath in ((first, "di"), (first, "dir/none"), (second, "link/file")):
            with pytest.raises(InvalidInputError, match="leads nowhere"):
                tree.reference("a", digest, subpath)
        tree.reference("a", first, "dir/file")


def test_references_that_multiply_are_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dis_store.contents.MAX_FILES", 1000)
    digest = write_text(store, "laugh")
    for _ in range(10):
        digest = write_tree(store, {}, {f"{number}": (digest, None) for number in range(3)})
    with pytest.raises(IntegrityError, match="more than 1000 entries"):
        store.files(digest)


def test_equal_files_share_one_inode(store: Store) -> None:
    one = write_tree(
        store, {"a": Blob(b"same"), "b/c": Blob(b"same"), "x": Blob(b"same", executable=True)}
    )
    other = write_tree(store, {"d": Blob(b"same")})
    paths = [store.file_path(one, "a"), store.file_path(one, "b/c"), store.file_path(other, "d")]
    assert len({path.stat().st_ino for path in paths}) == 1
    assert store.file_path(one, "x").stat().st_ino != paths[0].stat().st_ino
    assert audit(store.path) == []


WRITE = """
import os, sys, time
from pathlib import Path
from dis_store import Store
os.umask(int(sys.argv[2], 8))
files = sys.argv[3:]
with Store.open(Path(sys.argv[1])) as store, store.new_tree() as tree:
    for name in files:
        tree.write_bytes(name, name.encode(), executable=name.startswith("x"))
    print(tree.register())
"""


def test_equal_trees_are_equal_whatever_the_surroundings(tmp_path: Path) -> None:
    files = ["x/tool", "é", "b/c/d", "Z", "a"]
    surroundings = [
        ("022", files, {}),
        ("077", files[::-1], {"TZ": "Pacific/Kiritimati", "LC_ALL": "C"}),
        ("000", sorted(files), {"LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "7", "HOME": "/"}),
        ("777" if os.geteuid() == 0 else "027", files, {"LANG": "C", "PYTHONUTF8": "1"}),
    ]
    digests = set()
    for number, (umask, names, variables) in enumerate(surroundings):
        directory = tmp_path / f"store {number}"
        directory.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", WRITE, str(directory / "s"), umask, *names],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | variables,
            cwd=directory,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(done.stdout)
    assert len(digests) == 1


def test_the_audit_agrees_on_what_b3sum_would_print(store: Store) -> None:
    digest = write_tree(store, {"a": Blob(b"data")})
    manifest = store.path / "manifests" / digest[:2] / f"{digest}.json"
    assert Digest.of(manifest.read_bytes()) == digest
    assert Tree.decode(manifest.read_bytes()) == store.tree(digest)
    assert hashlib.sha256(b"data").hexdigest() == Sha256.of(b"data").hex


def test_references_that_fan_out_to_nothing_are_refused_and_not_followed_for_ever(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dis_store.contents.MAX_FILES", 50_000)
    with store.new_tree() as tree:
        below = tree.register()
    for _ in range(40):
        with store.new_tree() as tree:
            tree.reference("a", below)
            tree.reference("b", below)
            below = tree.register()
    with pytest.raises(IntegrityError, match="more than 50000 entries"):
        store.files(below)
