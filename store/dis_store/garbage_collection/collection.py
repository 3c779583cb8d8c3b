"""Garbage collection: deleting what no root keeps.

Everything is decided and made invisible under the exclusive lock: rows first, committed, then manifests, then the
trees, by a rename into `trash/`. A crash in between leaves trees without rows, which are garbage. The blocks are freed
after the lock is released.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from dis_store import derivations, last_use
from dis_store.digest import Digest
from dis_store.errors import DisError
from dis_store.foundation import Foundation
from dis_store.garbage_collection import trash, use_history
from dis_store.garbage_collection.deletion import Progress, delete
from dis_store.garbage_collection.freeing import Freeing
from dis_store.garbage_collection.garbage import Garbage, find_garbage, find_keepers
from dis_store.garbage_collection.link_sweep import sweep_links
from dis_store.garbage_collection.marking import Graph, load_graph
from dis_store.garbage_collection.orphans import find_orphans
from dis_store.garbage_collection.retirement import RetirementPolicy
from dis_store.garbage_collection.root_weights import (
    INODES_OF_AN_OBJECT,
    RootWeight,
    weigh_roots,
)
from dis_store.garbage_collection.space_goal import SpaceGoal
from dis_store.layout import Layout, fill_reserve
from dis_store.locks import sweep_build_locks
from dis_store.realisations import Realisation
from dis_store.writing.downloads import stale_bytes, sweep_downloads

__all__ = [
    "CollectedObject",
    "CollectionReport",
    "CollectionRequest",
    "Progress",
    "RetirementPolicy",
    "collect",
]


@dataclass(frozen=True, slots=True)
class CollectedObject:
    """An object that nothing kept: its digest, what a person knows it by ("" for nothing), the bytes of its files."""

    digest: Digest
    label: str
    size: int


@dataclass(frozen=True)
class CollectionRequest:
    """What a collection is to do.

    Attributes:
        dry_run: Only report what would go.
        policy: Which automatic roots may be given up. All of them when it says nothing and `goal.keep_free` is set.
        goal: When it is enough; then automatic roots go one by one, least recently used first.
        drop_inputs: Whether roots give up the realised inputs of what they keep.
    """

    dry_run: bool = False
    policy: RetirementPolicy = field(default_factory=RetirementPolicy)
    goal: SpaceGoal = field(default_factory=SpaceGoal)
    drop_inputs: bool = False

    @property
    def effective_policy(self) -> RetirementPolicy:
        """The policy, for a goal that none was given with too."""
        if self.goal.keep_free is not None and self.policy == RetirementPolicy():
            return RetirementPolicy(keep_last=0)
        return self.policy


@dataclass(frozen=True)
class CollectionReport:
    """What a collection deleted, or would delete.

    Attributes:
        dry_run: Whether nothing was done.
        retired_roots: The automatic roots that were given up.
        dead_links: Result links that are gone or lead elsewhere; their records were dropped.
        objects: The objects that nothing kept.
        orphans: Names of trees, manifests and records on disk that were in no index: what a crash leaves.
        derivations: The derivations that nothing kept.
        realisations: The records that nothing kept.
        freed_bytes: The bytes of the files whose last name went. A file that a living object shares frees none.
        wanted_bytes: How much was to be freed; None for all that nothing kept.
        unproven_roots: Automatic roots that stay because only the clock calls them old enough to be given up.
        retained_roots: Automatic roots that the policy would give up, and that must be kept for some time yet.
        freed_inodes: Of a dry run, how many inodes are freed at least.
        roots: What each root keeps, of a dry run; those that would be given up are among them.
    """

    dry_run: bool
    retired_roots: tuple[str, ...]
    dead_links: tuple[Path, ...]
    objects: tuple[CollectedObject, ...]
    orphans: tuple[str, ...]
    derivations: tuple[Digest, ...]
    realisations: tuple[Realisation, ...]
    freed_bytes: int
    wanted_bytes: int | None = None
    unproven_roots: tuple[str, ...] = ()
    retained_roots: tuple[str, ...] = ()
    freed_inodes: int = 0
    roots: tuple[RootWeight, ...] = ()

    @property
    def reached(self) -> bool:
        """Whether as much was freed as was wanted."""
        return self.wanted_bytes is None or self.freed_bytes >= self.wanted_bytes


def collect(
    foundation: Foundation, request: CollectionRequest, progress: Progress | None
) -> CollectionReport:
    """Delete what no root keeps; see `Store.collect_garbage`."""
    if request.dry_run:
        with foundation.locks.collecting():
            return _foretell(foundation, request)
    report = progress or (lambda _phase, _done, _total: None)
    layout = foundation.layout
    wanted = request.goal.wanted(layout.top)
    # First of all: on a full disk nothing else works without this room, not even opening the index.
    layout.reserve.unlink(missing_ok=True)
    try:
        # Whoever starts meanwhile must not empty the trash: what that frees is counted here.
        with foundation.locks.keeping_trash():
            with foundation.locks.collecting():
                graph, garbage = _decide(foundation, request, wanted)
                result = _describe(layout, graph, garbage, request, wanted)
                moved = delete(foundation, garbage, report)
            counter = _counter(report, moved, len(garbage.objects))
            freed = trash.empty(layout.room("trash"), counter)
        freed += sweep_links(layout, _sweeping(report)) + sweep_downloads(layout)
        sweep_build_locks(layout)
        use_history.forget_days(layout)
        last_use.note_day(layout)
    finally:
        # If there is no room for it even now, the next collection tries again.
        with contextlib.suppress(OSError):
            fill_reserve(layout)
    return replace(result, freed_bytes=freed)


def _counter(report: Progress, things: int, objects: int) -> Callable[[int], None]:
    """Return what tells how many objects are gone, given how many things of the trash are; for several threads."""
    lock = threading.Lock()
    gone = 0
    report("freeing", 0, objects)

    def count(more: int) -> None:
        nonlocal gone
        with lock:
            gone += more
            report("freeing", min(gone, things) * objects // max(things, 1), objects)

    return count


def _sweeping(report: Progress) -> Callable[[int, int], None]:
    """Return what tells how many directories of `links/` are swept."""
    done = 0

    def progress(amount: int, total: int) -> None:
        nonlocal done
        done += amount
        report("sweeping", done, total)

    return progress


def _foretell(foundation: Foundation, request: CollectionRequest) -> CollectionReport:
    layout = foundation.layout
    wanted = request.goal.wanted(layout.top)
    graph, garbage = _decide(foundation, request, wanted)
    freeing = Freeing(layout)
    trees = itertools.chain(
        garbage.orphans.trees, (layout.object(digest) for _, digest, _ in garbage.objects)
    )
    freed = freeing.swept_bytes + sum(map(freeing.delete, trees))
    result = _describe(layout, graph, garbage, request, wanted)
    return replace(
        result,
        freed_bytes=freed + stale_bytes(layout),
        freed_inodes=freeing.files + INODES_OF_AN_OBJECT * len(garbage.objects),
        roots=weigh_roots(foundation, graph, drop_inputs=request.drop_inputs),
    )


def _decide(
    foundation: Foundation, request: CollectionRequest, wanted: int | None
) -> tuple[Graph, Garbage]:
    orphans = find_orphans(foundation)
    graph = load_graph(foundation, orphans.digests())
    keepers = find_keepers(foundation.layout, request.effective_policy, sweep=not request.dry_run)
    garbage = find_garbage(
        foundation, graph, keepers, orphans, wanted=wanted, drop_inputs=request.drop_inputs
    )
    return graph, garbage


def _describe(
    layout: Layout,
    graph: Graph,
    garbage: Garbage,
    request: CollectionRequest,
    wanted: int | None,
) -> CollectionReport:
    labels = _labels(layout, graph, {digest for _, digest, _ in garbage.objects})
    return CollectionReport(
        dry_run=request.dry_run,
        retired_roots=garbage.retired,
        dead_links=tuple(link.link for link in garbage.dead_links),
        objects=tuple(
            CollectedObject(digest, labels.get(digest, ""), size)
            for _, digest, size in garbage.objects
        ),
        orphans=tuple(str(path.relative_to(layout.top)) for path in _paths_of_orphans(garbage)),
        derivations=garbage.derivations,
        realisations=garbage.realisations,
        freed_bytes=0,
        wanted_bytes=wanted,
        unproven_roots=garbage.unproven,
        retained_roots=garbage.retained,
    )


def _paths_of_orphans(garbage: Garbage) -> Iterator[Path]:
    yield from garbage.orphans.trees
    yield from garbage.orphans.manifests
    yield from garbage.orphaned_records


def _labels(layout: Layout, graph: Graph, wanted: Container[Digest]) -> dict[Digest, str]:
    """Name outputs after their derivations, or after their builders where those are gone."""
    labels: dict[Digest, str] = {}
    for realisation in itertools.chain(*graph.realisations.values()):
        dead = {
            output: digest for output, digest in realisation.outputs.items() if digest in wanted
        }
        if dead:
            name = _derivation_name(layout, realisation.derivation) or realisation.builder
            for output, digest in dead.items():
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
