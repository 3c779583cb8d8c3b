"""Listing what is on disk under names that are digests, sharded by their first two digits."""

import os
from collections.abc import Iterator
from pathlib import Path

from dis_store.digest import Digest
from dis_store.errors import InvalidInputError


def shards(room: Path) -> list[Path]:
    """Return the shards of a room in order."""
    return sorted(filter(is_directory, room.iterdir()))


def is_directory(path: Path) -> bool:
    """Tell whether something in the store is a directory; a symlink is none, since it leads out of the store."""
    return path.is_dir() and not path.is_symlink()


def sharded_names(room: Path) -> Iterator[Path]:
    """Yield all that lies in the shards of a room, in the order of the names."""
    for shard in shards(room):
        yield from sorted(shard.iterdir())


def digests_on_disk(room: Path) -> dict[Digest, Path]:
    """Return what lies in the shards of a room, by the digest that its name begins with."""
    found: dict[Digest, Path] = {}
    for path in sharded_names(room):
        digest = _digest(path.name.partition(".")[0])
        if digest is not None and path.parent.name == digest[:2]:
            found[digest] = path
    return found


def _digest(name: str) -> Digest | None:
    try:
        return Digest(name)
    except InvalidInputError:
        return None


def names_by_shard(room: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield each shard of a room and the names in it, both in order."""
    for shard in shards(room):
        yield shard, sorted(os.listdir(shard))  # noqa: PTH208 - names are all that is wanted
