"""Whether the disk has room for what is going to be written, told before anything is."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dis_store.environment import reported
from dis_store.errors import DisError, DiskFullError

if TYPE_CHECKING:
    from dis_store.foundation import Foundation
    from dis_store.garbage_collection.collection import CollectionReport
    from dis_store.garbage_collection.root_weights import RootWeight

# The manifest, the index, directories: what a store needs beside the bytes of files.
_OVERHEAD_BYTES = 1 << 20
_OVERHEAD_SHARE = 20
_SPARE_INODES = 16
_MOST_NAMES = 5
_KIBI = 1024


def check_room(foundation: "Foundation", size: int, *, files: int = 0) -> None:
    """Refuse what cannot fit: before a download, not after hours of it.

    Args:
        foundation: The store.
        size: The bytes of the files that come.
        files: How many files come.

    Raises:
        DiskFullError: Says how much is needed and how much there is, and what to remove to make room.
    """
    with reported(foundation.top):
        status = os.statvfs(foundation.top)
    free = status.f_bavail * status.f_frsize
    needed = size + size // _OVERHEAD_SHARE + _OVERHEAD_BYTES
    if free < needed:
        from dis_store.writing.downloads import unfinished_bytes

        # What has come of downloads has its room already.
        needed -= min(size, unfinished_bytes(foundation.layout))
    if free < needed:
        raise DiskFullError(
            f"the disk of the store is too full: {_text(needed)} needed, {_text(free)} free",
            cause=f"the store is {foundation.top}",
            hint=advice(foundation, needed - free),
        )
    _check_inodes(foundation, files, status)


def check_inodes(foundation: "Foundation", files: int) -> None:
    """Refuse more files than the file system can still name; the rest as in `check_room`."""
    with reported(foundation.top):
        status = os.statvfs(foundation.top)
    _check_inodes(foundation, files, status)


def _check_inodes(foundation: "Foundation", files: int, status: os.statvfs_result) -> None:
    # Some file systems make inodes as they need them, and report none at all.
    if status.f_files and status.f_favail < files + _SPARE_INODES:
        raise DiskFullError(
            "the file system of the store has too few inodes:"
            f" {files + _SPARE_INODES} needed, {status.f_favail} free",
            cause=f"the store is {foundation.top}",
            hint=advice(foundation, files + _SPARE_INODES - status.f_favail, INODES),
        )


@dataclass(frozen=True)
class Measure:
    """What a disk may lack.

    Attributes:
        dead: How much of it a collection frees, given its dry run.
        alone: How much of it a root keeps alone.
        text: Says so much of it.
    """

    dead: "Callable[[CollectionReport], int]"
    alone: "Callable[[RootWeight], int]"
    text: Callable[[int], str]


def advice(foundation: "Foundation", lacking: int, measure: Measure | None = None) -> str:
    """Return the command that makes so much room, in bytes unless told, or say that none does."""
    measure = measure or BYTES
    elsewhere = "use another disk: --store PATH"
    try:
        report = _what_goes(foundation)
    except DisError:  # a damaged root or index: nobody knows what may go
        return f"free what no root keeps: dis gc; or {elsewhere}"
    dead = measure.dead(report)
    if dead >= lacking:
        return f"free {measure.text(dead)} that no root keeps: dis gc; or {elsewhere}"
    chosen = _chosen(report.roots, lacking - dead, measure.alone)
    if not chosen:
        return f"{elsewhere}; here dis gc would free {measure.text(dead)}, and no root keeps enough"
    return f"{_removal(chosen, dead, measure)}; or {elsewhere}"


def _what_goes(foundation: "Foundation") -> "CollectionReport":
    from dis_store.garbage_collection.collection import CollectionRequest, collect

    return collect(foundation, CollectionRequest(dry_run=True), None)


def _chosen(
    weights: "Sequence[RootWeight]", lacking: int, alone: "Callable[[RootWeight], int]"
) -> "Sequence[RootWeight]":
    """Return few roots that keep so much alone, only automatic ones where they do; none if all together do not."""
    removable = [
        each for each in weights if each.kind != "link" and each.kept is None and alone(each) > 0
    ]
    automatic = [each for each in removable if each.kind == "automatic"]
    for pool in (automatic, removable):
        enough = [each for each in pool if alone(each) >= lacking]
        if enough:
            return [min(enough, key=alone)]
        if sum(map(alone, pool)) >= lacking:
            return _largest(pool, lacking, alone)
    return []


def _largest(
    pool: "Sequence[RootWeight]", lacking: int, alone: "Callable[[RootWeight], int]"
) -> "Sequence[RootWeight]":
    found: list[RootWeight] = []
    for each in sorted(pool, key=alone, reverse=True):
        if sum(map(alone, found)) >= lacking:
            break
        found.append(each)
    return found


def _removal(chosen: "Sequence[RootWeight]", dead: int, measure: Measure) -> str:
    import shlex

    names = [each.name for each in chosen]
    size = measure.text(dead + sum(map(measure.alone, chosen)))
    if len(names) > _MOST_NAMES:
        return f"{len(names)} roots keep {size} alone; choose from: dis gc --dry-run"
    return f"free {size}: dis root remove {shlex.join(names)} && dis gc"


def _text(size: int) -> str:
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < _KIBI:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= _KIBI
    return f"{value:,.1f} TiB"


BYTES = Measure(lambda report: report.freed_bytes, lambda root: root.only_bytes, _text)
INODES = Measure(
    lambda report: report.freed_inodes,
    lambda root: root.only_inodes,
    lambda number: f"{number:,} inodes",
)
