"""Taking garbage out of the store: first out of the index, then out of sight, then off the disk.

A crash in between leaves trees without rows, which the next collection deletes as orphans.
"""

import itertools
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dis_store.digest import Digest
from dis_store.durability import fsync_directory
from dis_store.foundation import Foundation
from dis_store.index import Transaction
from dis_store.layout import Layout
from dis_store.realisations import Realisation
from dis_store.result_links import ResultLink
from dis_store.sharded import sharded_names
from dis_store.work_space import discard_tree

# One transaction each: small enough for the log to fit into what the reserve gave.
_BATCH = 500

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True)
class Garbage:
    """What is going to be deleted. `objects` come before what they refer to."""

    retired: tuple[str, ...]
    dead_links: tuple[ResultLink, ...]
    objects: tuple[Digest, ...]
    orphan_trees: tuple[Path, ...]
    orphan_files: tuple[Path, ...]
    derivations: tuple[Digest, ...]
    realisations: tuple[Realisation, ...]


def delete(foundation: Foundation, garbage: Garbage, report: Progress) -> None:
    """Make garbage invisible: rows, records and manifests go, trees move to `trash/`.

    The caller is alone in the store.
    """
    layout = foundation.layout
    _unlink([layout.root(name) for name in garbage.retired])
    _unlink([link.record for link in garbage.dead_links])
    _delete_records(foundation, garbage)
    total = len(garbage.objects)
    for start in range(0, total, _BATCH):
        report("deleting", start, total)
        _delete_objects(foundation, garbage.objects[start : start + _BATCH])
    # Once for all batches: what comes back after a power cut has no row, and is an orphan.
    _fsync_directories(map(layout.manifest, garbage.objects))
    _fsync_directories(map(layout.object, garbage.objects))
    _unlink(garbage.orphan_files)
    for tree in garbage.orphan_trees:
        _discard(layout, tree)
    _fsync_directories(garbage.orphan_trees)
    with foundation.index.transaction() as transaction:
        _delete_what_is_left_over(transaction)
    report("deleting", total, total)


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


def _delete_objects(foundation: Foundation, digests: Sequence[Digest]) -> None:
    layout = foundation.layout
    with foundation.index.transaction() as transaction:
        transaction.execute_many(
            "DELETE FROM objects WHERE digest = ?", ((digest,) for digest in digests)
        )
    for digest in digests:
        layout.manifest(digest).unlink(missing_ok=True)
        _discard(layout, layout.object(digest))


def _delete_what_is_left_over(transaction: Transaction) -> None:
    """Forget contents of files that no object has, and plans that rest on what was never there."""
    transaction.execute("DELETE FROM files WHERE blake3 NOT IN (SELECT blake3 FROM object_files)")
    transaction.execute(
        "DELETE FROM plans WHERE key IN (SELECT plan FROM plan_objects"
        " WHERE object NOT IN (SELECT digest FROM objects))"
    )


def _unlink(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
    _fsync_directories(paths)


def _discard(layout: Layout, tree: Path) -> None:
    # A damaged store may have lost it.
    if os.path.lexists(tree):
        discard_tree(tree, layout.room("trash"))


def _fsync_directories(paths: Iterable[Path]) -> None:
    for directory in sorted({path.parent for path in paths}):
        if directory.is_dir():
            fsync_directory(directory)


def sweep_links(layout: Layout) -> None:
    """Remove the names in `links/` that are the last ones of their inodes.

    A writer may take such a name at the same moment: it keeps the inode then, and only the sharing is lost.
    """
    for path in sharded_names(layout.room("links")):
        if path.lstat().st_nlink == 1:
            path.unlink(missing_ok=True)


def freed_bytes(layout: Layout, trees: Iterable[Path]) -> int:
    """Sum the sizes of the inodes that lose their last name when `trees` go and `links/` is swept."""
    going: Counter[tuple[int, int]] = Counter()
    names: dict[tuple[int, int], tuple[int, int]] = {}
    for status in itertools.chain.from_iterable(map(_file_status, trees)):
        inode = (status.st_dev, status.st_ino)
        going[inode] += 1
        names[inode] = (status.st_nlink, status.st_size)
    for path in sharded_names(layout.room("links")):
        status = path.lstat()
        inode = (status.st_dev, status.st_ino)
        if status.st_nlink == going[inode] + 1:
            going[inode] += 1
            names[inode] = (status.st_nlink, status.st_size)
    return sum(size for inode, (links, size) in names.items() if links == going[inode])


def _file_status(tree: Path) -> Iterator[os.stat_result]:
    for directory, _, names in os.walk(tree):
        for name in names:
            status = os.lstat(os.path.join(directory, name))  # noqa: PTH118 - the hottest loop of a collection
            if stat.S_ISREG(status.st_mode):
                yield status
