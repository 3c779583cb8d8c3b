"""Garbage collection: deleting what no root keeps.

Everything is decided and made invisible under the exclusive lock: rows first, committed, then manifests, then the
trees, by a rename into `trash/`. A crash in between leaves trees without rows, which are garbage. The blocks are freed
after the lock is released.
"""

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dis_store import derivations, result_links
from dis_store.closures import closure
from dis_store.deletion import Garbage, Progress, delete, freed_bytes, sweep_links
from dis_store.digest import Digest
from dis_store.errors import DisError
from dis_store.foundation import Foundation
from dis_store.layout import Layout, fill_reserve
from dis_store.locks import sweep_build_locks
from dis_store.marking import Graph, load_graph, mark, stays
from dis_store.realisations import Realisation
from dis_store.retirement import RetirementPolicy
from dis_store.roots import Root, read_roots
from dis_store.sharded import digests_on_disk, sharded_names
from dis_store.temp_roots import live_temp_roots
from dis_store.work_space import empty_trash

__all__ = ["CollectedObject", "CollectionReport", "Progress", "RetirementPolicy", "collect"]


@dataclass(frozen=True)
class CollectedObject:
    """An object that nothing kept: its digest, what a person knows it by ("" for nothing), the bytes of its files."""

    digest: Digest
    label: str
    size: int


@dataclass(frozen=True)
class CollectionReport:
    """What a collection deleted, or would delete.

    Attributes:
        dry_run: Whether nothing was done.
        retired_roots: The automatic roots that the policy gave up.
        dead_links: Result links that are gone or lead elsewhere; their records were dropped.
        objects: The objects that nothing kept.
        orphans: Names of trees, manifests and records on disk that were in no index: what a crash leaves.
        derivations: The derivations that nothing kept.
        realisations: The records that nothing kept.
        freed_bytes: The bytes of the files whose last name went. A file that a living object shares frees none.
    """

    dry_run: bool
    retired_roots: tuple[str, ...]
    dead_links: tuple[Path, ...]
    objects: tuple[CollectedObject, ...]
    orphans: tuple[str, ...]
    derivations: tuple[Digest, ...]
    realisations: tuple[Realisation, ...]
    freed_bytes: int


def collect(
    foundation: Foundation,
    *,
    dry_run: bool,
    policy: RetirementPolicy | None,
    drop_inputs: bool,
    progress: Progress | None,
) -> CollectionReport:
    """Delete what no root keeps; see `Store.collect_garbage`."""
    report = progress or (lambda _phase, _done, _total: None)
    if not dry_run:
        # First of all: on a full disk nothing else works without this room, not even opening the index.
        foundation.layout.reserve.unlink(missing_ok=True)
    try:
        with foundation.locks.collecting():
            graph = load_graph(foundation)
            garbage = _find(
                foundation,
                graph,
                policy or RetirementPolicy(),
                drop_inputs=drop_inputs,
                dry_run=dry_run,
            )
            result = _describe(foundation.layout, graph, garbage, dry_run=dry_run)
            if not dry_run:
                delete(foundation, garbage, report)
        if not dry_run:
            report("freeing", 0, 1)
            empty_trash(foundation)
            sweep_links(foundation.layout)
            sweep_build_locks(foundation.layout)
            report("freeing", 1, 1)
    finally:
        if not dry_run:
            # If there is no room for it even now, the next collection tries again.
            with contextlib.suppress(OSError):
                fill_reserve(foundation.layout)
    return result


def _find(
    foundation: Foundation,
    graph: Graph,
    policy: RetirementPolicy,
    *,
    drop_inputs: bool,
    dry_run: bool,
) -> Garbage:
    layout = foundation.layout
    named = read_roots(layout)
    retired = policy.retired(named)
    links = result_links.read_all(layout)
    roots = [root for name, root in named.items() if name not in retired]
    roots += [_root_of(link, link.target) for link in links if link.target is not None]
    temporary = live_temp_roots(layout, sweep=not dry_run)
    marks = mark(layout, graph, roots, temporary, drop_inputs=drop_inputs)
    alive = marks.objects | graph.sizes.keys()
    records = list(itertools.chain(*graph.realisations.values()))
    return Garbage(
        retired=tuple(retired),
        dead_links=tuple(link for link in links if link.target is None),
        # Referrers before what they refer to, so that every batch leaves whole closures.
        objects=tuple(
            digest
            for digest in reversed(closure(graph.sizes, graph.references.__getitem__))
            if digest not in marks.objects
        ),
        orphan_trees=_unknown(layout.room("objects"), alive),
        orphan_files=(
            *_unknown(layout.room("manifests"), alive),
            *_unknown_records(layout.room("realisations"), records),
        ),
        derivations=tuple(
            digest
            for digest in digests_on_disk(layout.room("derivations"))
            if digest not in marks.derivations
        ),
        realisations=tuple(each for each in records if not stays(each, marks)),
    )


def _root_of(link: result_links.ResultLink, target: Digest) -> Root:
    return link.root if link.root.object == target else Root(target)


def _unknown(room: Path, known: set[Digest]) -> tuple[Path, ...]:
    found = {path: digest for digest, path in digests_on_disk(room).items()}
    return tuple(path for path in sharded_names(room) if found.get(path) not in known)


def _unknown_records(room: Path, records: Sequence[Realisation]) -> tuple[Path, ...]:
    known = {(each.key, f"{each.build}.json") for each in records}
    return tuple(
        record
        for directory in sharded_names(room)
        if directory.is_dir()
        for record in sorted(directory.iterdir())
        if (directory.name, record.name) not in known
    )


def _describe(layout: Layout, graph: Graph, garbage: Garbage, *, dry_run: bool) -> CollectionReport:
    labels = _labels(layout, graph)
    trees = [layout.object(digest) for digest in garbage.objects]
    return CollectionReport(
        dry_run=dry_run,
        retired_roots=garbage.retired,
        dead_links=tuple(link.link for link in garbage.dead_links),
        objects=tuple(
            CollectedObject(digest, labels.get(digest, ""), graph.sizes[digest])
            for digest in garbage.objects
        ),
        orphans=tuple(
            str(path.relative_to(layout.top))
            for path in (*garbage.orphan_trees, *garbage.orphan_files)
        ),
        derivations=garbage.derivations,
        realisations=garbage.realisations,
        freed_bytes=freed_bytes(layout, (*trees, *garbage.orphan_trees)),
    )


def _labels(layout: Layout, graph: Graph) -> dict[Digest, str]:
    """Name outputs after their derivations, or after their builders where those are gone."""
    labels: dict[Digest, str] = {}
    for realisation in itertools.chain(*graph.realisations.values()):
        name = _derivation_name(layout, realisation.derivation) or realisation.builder
        for output, digest in realisation.outputs.items():
            labels.setdefault(digest, f"{name}.{output}")
    return labels


def _derivation_name(layout: Layout, digest: Digest | None) -> str | None:
    if digest is None:
        return None
    # A label is a courtesy: a derivation that cannot be read has none.
    try:
        name = derivations.check(derivations.read(layout, digest)).get("name")
    except DisError:
        return None
    return name if isinstance(name, str) else None
