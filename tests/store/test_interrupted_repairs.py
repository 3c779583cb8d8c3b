"""What is made whole again stays whole, or can be made whole later, when making it so fails half-way."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from auditing import audit
from dis_store import Digest, Store, UnfitEnvironmentError
from dis_store.index import Index
from dis_store.integrity import inspection
from dis_store.writing import ingestion, registration
from processes import kill_self, killed_in
from trees import Blob, write_text, write_tree

GOOD, BAD = b"a good file", b"A good file"


@pytest.fixture
def damaged(store: Store) -> Digest:
    digest = write_tree(store, {"f": Blob(GOOD), "only here": Blob(b"only here")})
    file = store.object_path(digest) / "f"
    file.chmod(0o644)
    file.write_bytes(BAD)
    file.chmod(0o444)
    return digest


def repair(store: Store, donor: Path) -> None:
    donor.write_bytes(GOOD)
    store.repair(store.verify(None).problems, donors=[donor])


def fail(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize(
    "step", ["quarantined_name", "rename_exchange", "fsync_directory", "_publish_manifest"]
)
@pytest.mark.parametrize("how", [fail, kill_self], ids=["fails", "is killed"])
def test_a_repair_that_does_not_end_can_be_made_again(
    store: Store,
    damaged: Digest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    how: Callable[..., None],
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(registration, step, how)
        if how is kill_self:
            store.close()
            killed_in(lambda: repair(store, tmp_path / "donor"))
        else:
            with pytest.raises(UnfitEnvironmentError):
                repair(store, tmp_path / "donor")
    kept = [
        path.read_bytes()
        for room in ("objects", "quarantine")
        for path in store.path.joinpath(room).rglob("f")
    ]
    assert BAD in kept
    with Store.open(store.path) as again:
        repair(again, tmp_path / "donor")
        assert again.read_bytes(damaged, "f") == GOOD
        assert again.read_bytes(damaged, "only here") == b"only here"
        assert again.verify(None).ok


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR])
def test_what_this_process_cannot_open_is_not_taken_for_damaged(
    store: Store, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    digest = write_text(store, "x")

    def refuse(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    for module in (ingestion, inspection):
        with monkeypatch.context() as patched:
            # Each has the whole module by name, so that only its own calls fail.
            patched.setattr(module, "os", _Refusing(refuse))
            with pytest.raises(UnfitEnvironmentError):
                store.reindex() if module is ingestion else store.verify(None)
    assert list(store.path.joinpath("quarantine").iterdir()) == []
    store.reindex()
    assert store.is_valid(digest)
    store.close()
    assert audit(store.path) == []


class _Refusing:
    """The module `os`, which opens nothing."""

    def __init__(self, refuse: Callable[..., int]) -> None:
        self.open = refuse

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


def test_a_new_index_is_whole_before_it_is_closed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = write_text(store, "x")
    store.close()
    for path in store.path.glob("index.sqlite*"):
        path.unlink()
    close = Index.close

    def close_without_moving_the_log(index: Index) -> None:
        # As SQLite does when the disk is full or fails just then, without a word.
        if index._connection is not None:
            index._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        close(index)

    monkeypatch.setattr(Index, "close", close_without_moving_the_log)
    with Store.open(store.path) as again:
        again.reindex()
        assert again.objects() == [digest]
    assert audit(store.path) == []
