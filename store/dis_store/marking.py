"""Deciding what is alive: from the roots, over references, realisations and derivations."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dis_store import derivations
from dis_store.closures import closure
from dis_store.digest import Digest
from dis_store.errors import IntegrityError
from dis_store.foundation import Foundation, read_tree
from dis_store.layout import Layout
from dis_store.realisations import Realisation
from dis_store.roots import Root


@dataclass(frozen=True)
class Graph:
    """What the index knows, loaded at once: one question for each object would take minutes in a large store."""

    sizes: Mapping[Digest, int]
    references: Mapping[Digest, list[Digest]]
    realisations: Mapping[Digest, list[Realisation]]


def load_graph(foundation: Foundation) -> Graph:
    """Load objects, references and realisations."""
    rows = foundation.index.query("SELECT id, digest, size FROM objects ORDER BY id")
    names = {number: Digest(digest) for number, digest, _ in rows}
    references: dict[Digest, list[Digest]] = {digest: [] for digest in names.values()}
    for referrer, reference in foundation.index.query("SELECT referrer, reference FROM refs"):
        references[names[referrer]].append(names[reference])
    realisations: dict[Digest, list[Realisation]] = {}
    for (record,) in foundation.index.query(
        "SELECT record FROM realisations ORDER BY key, sequence, build"
    ):
        realisation = Realisation.decode(record.encode())
        realisations.setdefault(realisation.key, []).append(realisation)
    return Graph({Digest(digest): size for _, digest, size in rows}, references, realisations)


@dataclass
class Marks:
    """What is alive."""

    objects: set[Digest] = field(default_factory=set)
    keys: set[Digest] = field(default_factory=set)
    derivations: set[Digest] = field(default_factory=set)


def mark(
    layout: Layout,
    graph: Graph,
    roots: Iterable[Root],
    temporary: Iterable[Digest],
    *,
    drop_inputs: bool,
) -> Marks:
    """Return what the roots keep.

    Args:
        layout: Where the store is; derivations and orphans are read from the disk.
        graph: What the index knows.
        roots: Named, automatic and of living result links.
        temporary: Names of objects and derivations that living processes hold.
        drop_inputs: Whether realised inputs are given up.
    """
    marking = _Marking(layout, graph, drop_inputs=drop_inputs)
    for root in roots:
        marking.mark_root(root)
    for digest in temporary:
        marking.mark_object(digest)
        marking.mark_derivation(digest)
    marking.mark_records()
    return marking.marks


class _Marking:
    def __init__(self, layout: Layout, graph: Graph, *, drop_inputs: bool) -> None:
        self.marks = Marks()
        self._layout = layout
        self._graph = graph
        self._drop_inputs = drop_inputs

    def mark_root(self, root: Root) -> None:
        self.mark_object(root.object)
        if root.derivation is not None:
            self.mark_derivation(root.derivation)
        if root.key is not None:
            self._mark_key(root.key)

    def mark_object(self, digest: Digest) -> None:
        if digest not in self.marks.objects:
            self.marks.objects.update(closure([digest], self._references))

    def _references(self, digest: Digest) -> list[Digest]:
        if digest in self._graph.references:
            return self._graph.references[digest]
        # On disk but not in the index, as after a reindexing that found its closure incomplete: a root keeps it.
        try:
            return sorted({entry.object for entry in read_tree(self._layout, digest).references})
        except IntegrityError:
            return []

    def mark_derivation(self, digest: Digest) -> None:
        pending = [digest]
        while pending:
            current = pending.pop()
            if current not in self.marks.derivations:
                self.marks.derivations.add(current)
                pending.extend(derivations.inputs(self._layout, current))

    def _mark_key(self, key: Digest) -> None:
        pending = [key]
        while pending:
            current = pending.pop()
            if current in self.marks.keys:
                continue
            self.marks.keys.add(current)
            for realisation in self._graph.realisations.get(current, ()):
                for output in realisation.outputs.values():
                    self.mark_object(output)
                if not self._drop_inputs:
                    pending.extend(self._mark_inputs(realisation))

    def _mark_inputs(self, realisation: Realisation) -> list[Digest]:
        inputs = realisation.inputs.values()
        for each in inputs:
            self.mark_object(each.object)
        return [each.key for each in inputs if each.key is not None]

    def mark_records(self) -> None:
        """Keep the derivations of all records that stay."""
        for records in self._graph.realisations.values():
            for realisation in records:
                if realisation.derivation is not None and stays(realisation, self.marks):
                    self.mark_derivation(realisation.derivation)


def stays(realisation: Realisation, marks: Marks) -> bool:
    """Tell whether a record stays: a root keeps its key, or all that came out is alive anyway."""
    if realisation.key in marks.keys:
        return True
    return marks.objects.issuperset(realisation.outputs.values())
