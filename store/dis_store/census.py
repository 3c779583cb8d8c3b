"""Counting what a store holds."""

import os
from dataclasses import dataclass
from pathlib import Path

from dis_store.foundation import Foundation
from dis_store.layout import Layout
from dis_store.sharded import sharded_names
from dis_store.tensors import tensor_table as tensors
from dis_store.tensors.tensor_table import TensorCount

# A shared file has one name in `links/` and one in the object that it costs space for.
_PAID_NAMES = 2


@dataclass(frozen=True)
class Census:
    """What a store holds.

    Attributes:
        objects: How many objects.
        files: How many different contents of files.
        bytes: The bytes of the files of all objects, as if nothing were shared.
        shared_bytes: How many of these bytes take no space, because equal files share it.
        tensors: What is known of the tensors in safetensors files.
        derivations: How many derivations.
        realisations: How many records of builds.
        roots: How many named roots, automatic ones included.
        result_links: How many result links that are there.
        quarantined: How many things are in quarantine.
        index_bytes: The size of the index with its log.
        free_bytes: What the file system has left for this user.
    """

    objects: int
    files: int
    bytes: int
    shared_bytes: int
    tensors: TensorCount
    derivations: int
    realisations: int
    roots: int
    result_links: int
    quarantined: int
    index_bytes: int
    free_bytes: int


def count(foundation: Foundation) -> Census:
    """Count; see `Store.census`."""
    from dis_store import result_links

    layout, index = foundation.layout, foundation.index
    status = os.statvfs(layout.top)
    return Census(
        objects=index.value("SELECT count(*) FROM objects"),
        files=index.value("SELECT count(*) FROM files"),
        bytes=index.value("SELECT coalesce(sum(size), 0) FROM objects"),
        shared_bytes=_shared_bytes(layout),
        tensors=tensors.count(index),
        derivations=index.value("SELECT count(*) FROM derivations"),
        realisations=index.value("SELECT count(*) FROM realisations"),
        roots=sum(1 for _ in layout.room("roots").glob("*.json")),
        result_links=sum(link.target is not None for link in result_links.read_all(layout)),
        quarantined=sum(1 for _ in layout.room("quarantine").iterdir()),
        index_bytes=sum(map(_size, layout.top.glob("index.sqlite*"))),
        free_bytes=status.f_bavail * status.f_frsize,
    )


def _shared_bytes(layout: Layout) -> int:
    statuses = (path.lstat() for path in sharded_names(layout.room("links")))
    return sum(max(0, each.st_nlink - _PAID_NAMES) * each.st_size for each in statuses)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0
