"""What lies in `objects/`, `manifests/` and `realisations/` and is in no index: what a crash leaves."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dis_store.digest import Digest
from dis_store.errors import InvalidInputError
from dis_store.foundation import Foundation
from dis_store.index import Index
from dis_store.realisations import Realisation
from dis_store.sharded import is_directory, names_by_shard, sharded_names

_SHARD_DIGITS = 2


@dataclass(frozen=True)
class Orphans:
    """Trees and manifests without rows.

    Attributes:
        trees: In `objects/`.
        manifests: In `manifests/`.
    """

    trees: tuple[Path, ...]
    manifests: tuple[Path, ...]

    def digests(self) -> set[Digest]:
        """Return the objects that trees and manifests are called after."""
        found = map(_digest, (*self.trees, *self.manifests))
        return {digest for digest in found if digest is not None}

    def without(self, kept: Collection[Digest]) -> "Orphans":
        """Return those that are called after none of these objects."""
        return Orphans(
            tuple(path for path in self.trees if _digest(path) not in kept),
            tuple(path for path in self.manifests if _digest(path) not in kept),
        )


def _digest(path: Path) -> Digest | None:
    try:
        digest = Digest(path.name.partition(".")[0])
    except InvalidInputError:
        return None
    return digest if path.parent.name == digest[:2] else None


def find_orphans(foundation: Foundation) -> Orphans:
    """Compare the disk with the rows, shard by shard: a large store has more names than memory should hold."""
    rooms = [foundation.layout.room(name) for name in ("objects", "manifests")]
    return Orphans(*(tuple(_strangers(room, foundation.index)) for room in rooms))


def _strangers(room: Path, index: Index) -> Iterator[Path]:
    for shard, names in names_by_shard(room):
        is_shard = len(shard.name) == _SHARD_DIGITS
        known = {row[1] for row in rows_of_shard(index, shard.name)} if is_shard else set()
        yield from (shard / name for name in names if name.partition(".")[0] not in known)


def rows_of_shard(index: Index, shard: str) -> list[tuple[int, str, int]]:
    """Return id, digest and size of the objects whose digests begin like this, by digest."""
    return index.query(
        "SELECT id, digest, size FROM objects WHERE digest >= ? AND digest < ? ORDER BY digest",
        (shard, f"{shard}g"),
    )


def orphaned_records(room: Path, records: Sequence[Realisation]) -> tuple[Path, ...]:
    """Return the records of builds on the disk that are none of these."""
    known = {(each.key, f"{each.build}.json") for each in records}
    return tuple(
        record
        for directory in sharded_names(room)
        if is_directory(directory)
        for record in sorted(directory.iterdir())
        if (directory.name, record.name) not in known
    )
