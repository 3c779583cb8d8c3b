"""Deciding what is alive: from the roots, over references, realisations and derivations."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dis_store import derivations
from dis_store.closures import closure
from dis_store.digest import Digest
from dis_store.errors import IntegrityError
from dis_store.foundation import Foundation, read_tree
from dis_store.layout import Layout
from dis_store.realisations import Realisation, bytes_of
from dis_store.roots import Root


@dataclass(frozen=True)
class Graph:
    """What the index knows, loaded at once: one question for each object would take minutes in a large store.

    Attributes:
        layout: Where the store is; derivations and orphans are read from the disk.
        references: What objects refer to; those that refer to nothing are left out.
        realisations: The records of builds, by key, oldest first.
        orphans: Objects that are on the disk and have no rows.
    """

    layout: Layout
    references: Mapping[Digest, Sequence[Digest]]
    realisations: Mapping[Digest, Sequence[Realisation]]
    orphans: Collection[Digest] = ()


def load_graph(foundation: Foundation, orphans: Collection[Digest] = ()) -> Graph:
    """Load references and realisations."""
    index = foundation.index
    rows = index.query(
        "SELECT id, digest FROM objects"
        " WHERE id IN (SELECT referrer FROM refs UNION SELECT reference FROM refs)"
    )
    names = {number: Digest(digest) for number, digest in rows}
    references: dict[Digest, list[Digest]] = {}
    for referrer, reference in index.query("SELECT referrer, reference FROM refs"):
        references.setdefault(names[referrer], []).append(names[reference])
    realisations: dict[Digest, list[Realisation]] = {}
    for (record,) in index.query("SELECT record FROM realisations ORDER BY key, sequence, build"):
        realisation = Realisation.decode(bytes_of(record))
        realisations.setdefault(realisation.key, []).append(realisation)
    return Graph(foundation.layout, references, realisations, orphans)


@dataclass
class Marks:
    """What is alive; objects in the order in which they were found to be."""

    objects: dict[Digest, None] = field(default_factory=dict)
    keys: set[Digest] = field(default_factory=set)
    derivations: set[Digest] = field(default_factory=set)


class Marking:
    """Marks what roots keep, one after the other."""

    def __init__(self, graph: Graph, *, drop_inputs: bool) -> None:
        """Begin with nothing.

        Args:
            graph: What there is.
            drop_inputs: Whether realised inputs are given up.
        """
        self.marks = Marks()
        self._graph = graph
        self._drop_inputs = drop_inputs

    def mark_root(self, root: Root) -> None:
        """Mark what a root keeps, without derivations: see `mark_derivations`."""
        self.mark_object(root.object)
        if root.key is not None:
            self._mark_key(root.key)

    def mark_object(self, digest: Digest) -> None:
        """Mark an object and all that it refers to."""
        if digest not in self.marks.objects:
            self.marks.objects.update(dict.fromkeys(closure([digest], self._references)))

    def _references(self, digest: Digest) -> Sequence[Digest]:
        if digest in self.marks.objects:
            return ()
        if digest not in self._graph.orphans:
            return self._graph.references.get(digest, ())
        # On disk but not in the index, as after a reindexing that found its closure incomplete: a root keeps it.
        try:
            return sorted(
                {entry.object for entry in read_tree(self._graph.layout, digest).references}
            )
        except IntegrityError:
            return ()

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

    def mark_derivations(self, digests: Iterable[Digest]) -> None:
        """Mark derivations, those that they name, and those of all records that stay."""
        pending = list(digests)
        for records in self._graph.realisations.values():
            pending += [
                each.derivation
                for each in records
                if each.derivation is not None and stays(each, self.marks)
            ]
        while pending:
            current = pending.pop()
            if current not in self.marks.derivations:
                self.marks.derivations.add(current)
                pending.extend(derivations.inputs(self._graph.layout, current))


def stays(realisation: Realisation, marks: Marks) -> bool:
    """Tell whether a record stays: a root keeps its key, or all that came out is alive anyway."""
    if realisation.key in marks.keys:
        return True
    return all(output in marks.objects for output in realisation.outputs.values())
