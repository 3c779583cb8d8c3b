"""Finding garbage: what no root keeps, which roots a policy gives up for it, and in which order it goes."""

import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dis_store import result_links, signatures
from dis_store.digest import Digest
from dis_store.foundation import Foundation
from dis_store.garbage_collection.freeing import Freeing
from dis_store.garbage_collection.marking import Graph, Marking, stays
from dis_store.garbage_collection.orphans import Orphans, orphaned_records, rows_of_shard
from dis_store.garbage_collection.retirement import RetirementPolicy
from dis_store.garbage_collection.root_survey import read_roots
from dis_store.garbage_collection.use_history import last_uses
from dis_store.layout import Layout
from dis_store.realisations import Realisation
from dis_store.roots import Root
from dis_store.sharded import digests_on_disk
from dis_store.temp_roots import live_temp_roots

_SHARDS = tuple(f"{number:02x}" for number in range(256))

Row = tuple[int, Digest, int]
"""An object of the index: its number, its digest, and the bytes of its files."""


@dataclass(frozen=True)
class Garbage:
    """What is going to be deleted.

    Attributes:
        retired: Automatic roots.
        unproven: Automatic roots that stay because only the clock calls them old.
        retained: Automatic roots that stay because they must be kept for some time yet.
        dead_links: Records of result links that are gone.
        objects: They come before what they refer to.
        orphans: What is on the disk and in no index.
        orphaned_records: Records of builds that are in no index.
        derivations: By their digests.
        realisations: Records of builds.
        signatures: Files of signatures that are about no object and no key of a record that stays.
    """

    retired: tuple[str, ...]
    unproven: tuple[str, ...]
    retained: tuple[str, ...]
    dead_links: tuple[result_links.ResultLink, ...]
    objects: Sequence[Row]
    orphans: Orphans
    orphaned_records: tuple[Path, ...]
    derivations: tuple[Digest, ...]
    realisations: tuple[Realisation, ...]
    signatures: tuple[Path, ...]


@dataclass(frozen=True)
class Keepers:
    """What keeps things from a collection: roots by name, targets of result links, names that processes hold.

    Attributes:
        named: All named roots.
        candidates: Those that may be given up, least recently used first.
        unproven: Those that may not, because only the clock calls them old.
        retained: Those that may not, because they must be kept for some time yet.
        links: All result links.
        temporary: Names of objects and derivations that living processes hold.
    """

    named: Mapping[str, Root]
    candidates: Sequence[str]
    unproven: Sequence[str]
    retained: Sequence[str]
    links: Sequence[result_links.ResultLink]
    temporary: frozenset[Digest]

    def roots(self, without: Iterable[str]) -> list[Root]:
        """Return the roots that count when some of the named ones are given up."""
        gone = set(without)
        found = [root for name, root in self.named.items() if name not in gone]
        return [*found, *(link.kept for link in self.links if link.kept is not None)]


def find_keepers(layout: Layout, policy: RetirementPolicy, *, sweep: bool) -> Keepers:
    """Read what keeps things. The caller holds the collection lock.

    Args:
        layout: Where the store is.
        policy: Which roots may be given up.
        sweep: Whether to remove what dead processes left.
    """
    named = read_roots(layout)
    uses = last_uses(layout, named)
    return Keepers(
        named,
        policy.retired(named, uses),
        policy.unproven(named, uses),
        policy.retained(named, uses),
        result_links.read_all(layout),
        frozenset(live_temp_roots(layout, sweep=sweep)),
    )


def find_garbage(
    foundation: Foundation,
    graph: Graph,
    keepers: Keepers,
    orphans: Orphans,
    *,
    wanted: int | None,
    drop_inputs: bool,
) -> Garbage:
    """Return what is to go.

    Args:
        foundation: The store.
        graph: What its index knows.
        keepers: What keeps things.
        orphans: What is on the disk and in no index.
        wanted: The bytes after which it is enough; None for all that no root keeps, once all candidates are given up.
        drop_inputs: Whether roots give up realised inputs.
    """
    choice = _Choice(tuple(keepers.candidates), ())
    if wanted is not None:
        choice = _choose(
            foundation, graph, keepers, orphans, wanted=wanted, drop_inputs=drop_inputs
        )
    marking = _marked(graph, keepers.roots(choice.retired), keepers.temporary, drop_inputs)
    for _, digest, _ in choice.spared:
        marking.marks.objects[digest] = None
    named = (root.derivation for root in keepers.roots(choice.retired))
    marking.mark_derivations([*keepers.temporary, *(each for each in named if each is not None)])
    marks = marking.marks
    records = list(itertools.chain(*graph.realisations.values()))
    layout = foundation.layout
    staying = {each.key for each in records if stays(each, marks)}
    return Garbage(
        retired=choice.retired,
        unproven=tuple(keepers.unproven),
        retained=tuple(keepers.retained),
        dead_links=tuple(link for link in keepers.links if link.target is None),
        objects=_referrers_first(_rows_without(foundation, marks.objects), graph.references),
        orphans=orphans.without(marks.objects),
        orphaned_records=orphaned_records(layout.room("realisations"), records),
        derivations=tuple(
            digest
            for digest in digests_on_disk(layout.room("derivations"))
            if digest not in marks.derivations
        ),
        realisations=tuple(each for each in records if not stays(each, marks)),
        signatures=signatures.of_nothing(layout, staying | marks.objects.keys()),
    )


@dataclass(frozen=True)
class _Choice:
    """Which candidates to give up, and what of the garbage need not go."""

    retired: tuple[str, ...]
    spared: Sequence[Row]


def _choose(
    foundation: Foundation,
    graph: Graph,
    keepers: Keepers,
    orphans: Orphans,
    *,
    wanted: int,
    drop_inputs: bool,
) -> _Choice:
    """Stop when it is enough: first goes what nothing keeps, then what only the least recently used root keeps, ..."""
    layout = foundation.layout
    marking = _marked(graph, keepers.roots(keepers.candidates), keepers.temporary, drop_inputs)
    spans: dict[str, slice] = {}
    # From the other end: what a root marks here is kept by it and by less recently used ones alone.
    for name in reversed(keepers.candidates):
        start = len(marking.marks.objects)
        marking.mark_root(keepers.named[name])
        spans[name] = slice(start, len(marking.marks.objects))
    marked = list(marking.marks.objects)
    freeing = Freeing(layout)
    freed = freeing.swept_bytes + sum(
        map(freeing.delete, orphans.without(marking.marks.objects).trees)
    )
    dead = _referrers_first(_rows_without(foundation, marking.marks.objects), graph.references)
    for count, (_, digest, _) in enumerate(dead):
        if freed >= wanted:
            return _Choice((), dead[count:])
        freed += freeing.delete(layout.object(digest))
    retired: list[str] = []
    for name in keepers.candidates:
        if freed >= wanted:
            break
        retired.append(name)
        freed += sum(freeing.delete(layout.object(each)) for each in marked[spans[name]])
    return _Choice(tuple(retired), ())


def _marked(
    graph: Graph, roots: Iterable[Root], temporary: Iterable[Digest], drop_inputs: bool
) -> Marking:
    marking = Marking(graph, drop_inputs=drop_inputs)
    for root in roots:
        marking.mark_root(root)
    for digest in temporary:
        marking.mark_object(digest)
    return marking


def _rows_without(foundation: Foundation, kept: Mapping[Digest, None]) -> list[Row]:
    return [
        (number, Digest(digest), size)
        for shard in _SHARDS
        for number, digest, size in rows_of_shard(foundation.index, shard)
        if digest not in kept
    ]


def _referrers_first(rows: list[Row], references: Mapping[Digest, Sequence[Digest]]) -> list[Row]:
    """Sort objects so that each comes before what it refers to, and the oldest first where that leaves a choice."""
    referrers: Counter[Digest] = Counter()
    for _, digest, _ in rows:
        referrers.update(references.get(digest, ()))
    if not referrers:
        return sorted(rows)
    waiting = {row[1]: row for row in rows if row[1] in referrers}
    # A sorted list is a heap.
    ready = sorted(row for row in rows if row[1] not in referrers)
    ordered: list[Row] = []
    while ready:
        row = heapq.heappop(ready)
        ordered.append(row)
        for reference in references.get(row[1], ()):
            referrers[reference] -= 1
            if referrers[reference] == 0 and reference in waiting:
                heapq.heappush(ready, waiting[reference])
    return ordered
