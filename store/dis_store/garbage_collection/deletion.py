"""Taking garbage out of the store: first out of the index, then out of sight, then off the disk.

A crash in between leaves trees without rows, which the next collection deletes as orphans.
"""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from dis_store import signatures
from dis_store.digest import Digest
from dis_store.durability import fsync_directory
from dis_store.foundation import Foundation
from dis_store.garbage_collection.garbage import Garbage, Row
from dis_store.garbage_collection.space_goal import free_bytes
from dis_store.garbage_collection.trash import TrashBins
from dis_store.index import Transaction

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# Objects in one transaction. Each costs the log of the index a few pages, and on a full disk the log must fit into what
# the reserve gave; larger batches write pages that many rows share only once.
_SMALL_BATCH, _LARGE_BATCH = 500, 20_000
_ROOM_FOR_LARGE_BATCH = 1 << 30

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


def delete(foundation: Foundation, garbage: Garbage, report: Progress) -> int:
    """Make garbage invisible: rows, records and manifests go, trees move to `trash/`.

    The caller is alone in the store.

    Returns:
        How many things were moved to the trash.
    """
    layout = foundation.layout
    _unlink([layout.root(name) for name in garbage.retired])
    _unlink([link.record for link in garbage.dead_links])
    _delete_records(foundation, garbage)
    _delete_rows(foundation, garbage.objects, report)
    moved = _set_aside(foundation, garbage, report)
    _unlink(garbage.orphaned_records)
    signatures.remove(garbage.signatures)
    with foundation.index.transaction() as transaction:
        _delete_what_is_left_over(transaction)
    return moved


def _delete_records(foundation: Foundation, garbage: Garbage) -> None:
    layout = foundation.layout
    with foundation.index.transaction() as transaction:
        transaction.execute_many(
            "DELETE FROM realisations WHERE key = ? AND build = ?",
            ((each.key, each.build) for each in garbage.realisations),
        )
        gone = [(digest,) for digest in garbage.derivations]
        transaction.execute_many("DELETE FROM derivations WHERE digest = ?", gone)
        transaction.execute_many("DELETE FROM derivation_outputs WHERE derivation = ?", gone)
    records = [
        layout.realisations(each.key) / f"{each.build}.json" for each in garbage.realisations
    ]
    _unlink([*records, *map(layout.derivation, garbage.derivations)])
    for directory in {record.parent for record in records}:
        if directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()


def _delete_rows(foundation: Foundation, rows: Sequence[Row], report: Progress) -> None:
    large = free_bytes(foundation.top) >= _ROOM_FOR_LARGE_BATCH
    batch = _LARGE_BATCH if large else _SMALL_BATCH
    for start in range(0, len(rows), batch):
        report("forgetting", start, len(rows))
        with foundation.index.transaction() as transaction:
            transaction.execute_many(
                "DELETE FROM objects WHERE id = ?",
                ((number,) for number, _, _ in rows[start : start + batch]),
            )


def _delete_what_is_left_over(transaction: Transaction) -> None:
    """Forget contents of files that no object has, and plans that rest on what was never there."""
    transaction.execute("DELETE FROM files WHERE blake3 NOT IN (SELECT blake3 FROM object_files)")
    transaction.execute(
        "DELETE FROM plans WHERE key IN (SELECT plan FROM plan_objects"
        " WHERE object NOT IN (SELECT digest FROM objects))"
    )


def _set_aside(foundation: Foundation, garbage: Garbage, report: Progress) -> int:
    """Move manifests and trees to the trash, then wait until they are gone from their places."""
    layout = foundation.layout
    touched: list[Path] = []
    digests = sorted(digest for _, digest, _ in garbage.objects)
    with TrashBins(layout.room("trash")) as bins:
        for shard, members in itertools.groupby(digests, _shard):
            report("setting aside", bins.count // 2, len(digests))
            names = list(members)
            touched += (layout.room("manifests") / shard, layout.room("objects") / shard)
            _move(bins, touched[-2], (f"{digest}.json" for digest in names))
            _move(bins, touched[-1], names)
        orphans = (*garbage.orphans.manifests, *garbage.orphans.trees)
        for directory, paths in itertools.groupby(orphans, lambda path: path.parent):
            touched.append(directory)
            _move(bins, directory, (path.name for path in paths))
    # After all renames: where the file system has a journal, the first of these waits for all of them.
    _fsync_directories(touched)
    return bins.count


def _shard(digest: Digest) -> str:
    return digest[:2]


def _move(bins: TrashBins, directory: Path, names: Iterable[str]) -> None:
    with _opened(directory) as descriptor:
        if descriptor is not None:
            for name in names:
                bins.take(name, descriptor)


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int | None]:
    # A damaged store may have lost it.
    try:
        descriptor = os.open(directory, _DIRECTORY)
    except FileNotFoundError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _unlink(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
    _fsync_directories(path.parent for path in paths)


def _fsync_directories(directories: Iterable[Path]) -> None:
    for directory in sorted(set(directories)):
        if directory.is_dir():
            fsync_directory(directory)
