"""What each root keeps: what goes with it alone, and what others keep as well."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from dis_store import result_links
from dis_store.digest import Digest
from dis_store.foundation import Foundation
from dis_store.garbage_collection.marking import Graph, Marking
from dis_store.garbage_collection.retention import Kept
from dis_store.garbage_collection.retention import kept as must_stay
from dis_store.garbage_collection.root_survey import survey_roots
from dis_store.garbage_collection.use_history import LastUse, last_uses
from dis_store.roots import Root

INODES_OF_AN_OBJECT = 2
"""Its directory and its manifest, beside its files and the directories among them."""

RootKind = Literal["named", "automatic", "link"]


@dataclass(frozen=True)
class RootWeight:
    """What a root keeps. A content that several files have counts once.

    Attributes:
        name: The root, or the path of the result link.
        kind: Whether a person named it, dis made it, or it is a result link.
        last_used: When, if that is known.
        objects: How many objects it keeps.
        only_bytes: The bytes of contents that no other root keeps: what a collection would free without it.
        shared_bytes: The bytes of the others.
        only_inodes: How many inodes a collection would free without it, at least.
        kept: Until when it must be kept; None for one that may go.
    """

    name: str
    kind: RootKind
    last_used: LastUse | None
    objects: int
    only_bytes: int
    shared_bytes: int
    only_inodes: int
    kept: Kept | None = None


def weigh_roots(
    foundation: Foundation, graph: Graph, *, drop_inputs: bool = False
) -> tuple[RootWeight, ...]:
    """Weigh all roots that can be read, the one that keeps most for itself alone first."""
    roots = list(_roots(foundation))
    uses = last_uses(foundation.layout, [name for name, kind, _ in roots if kind != "link"])
    reached = [_reached(graph, root, drop_inputs=drop_inputs) for _, _, root in roots]
    sizes, contents = _contents(foundation, {each for one in reached for each in one})
    kept = [{file for each in one for file in contents.get(each, ())} for one in reached]
    keepers = Counter(file for files in kept for file in files)
    reaching = Counter(each for one in reached for each in one)
    weights = [
        RootWeight(
            name,
            kind,
            uses.get(name) if kind != "link" else None,
            len(objects),
            sum(sizes[file] for file in files if keepers[file] == 1),
            sum(sizes[file] for file in files if keepers[file] > 1),
            sum(keepers[file] == 1 for file in files)
            + INODES_OF_AN_OBJECT * sum(reaching[each] == 1 for each in objects),
            must_stay(root, uses.get(name)) if kind != "link" else None,
        )
        for (name, kind, root), objects, files in zip(roots, reached, kept, strict=True)
    ]
    return tuple(sorted(weights, key=lambda each: (-each.only_bytes, each.name)))


def _roots(foundation: Foundation) -> Iterator[tuple[str, RootKind, Root]]:
    for name, root in survey_roots(foundation.layout).good.items():
        yield name, "automatic" if root.automatic else "named", root
    for link in result_links.survey_links(foundation.layout)[0]:
        if link.kept is not None:
            yield str(link.link), "link", link.kept


def _reached(graph: Graph, root: Root, *, drop_inputs: bool) -> Collection[Digest]:
    marking = Marking(graph, drop_inputs=drop_inputs)
    marking.mark_root(root)
    return marking.marks.objects.keys()


def _contents(
    foundation: Foundation, wanted: set[Digest]
) -> tuple[Mapping[str, int], Mapping[str, list[str]]]:
    """Return the sizes of contents, and which contents the wanted objects have."""
    sizes: dict[str, int] = {}
    contents: dict[str, list[str]] = {}
    for digest, file, size in foundation.index.query(
        "SELECT objects.digest, files.blake3, files.size FROM objects"
        " JOIN object_files ON object_files.object = objects.id"
        " JOIN files ON files.blake3 = object_files.blake3"
    ):
        if digest in wanted:
            sizes[file] = size
            contents.setdefault(digest, []).append(file)
    return sizes, contents
