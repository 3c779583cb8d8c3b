"""Which roots keep an object from garbage collection, and through what."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dis_derivations.provenance.dependency import entries_to
from dis_store.digest import Digest

if TYPE_CHECKING:
    from dis_store import Root, Store

How = Literal["root", "output", "input", "reference"]
RootKind = Literal["named", "automatic", "link"]


@dataclass(frozen=True)
class Step:
    """One step from a root to an object.

    Attributes:
        how: `root`: the root names the object. `output`: a build made it. `input`: a build was made from it.
            `reference`: the object before refers to it.
        name: Of the output, the input or the entries; empty for `root`.
        builder: Of the build, for outputs and inputs.
        object: Where the step leads.
    """

    how: How
    name: str
    object: Digest
    builder: str = ""


@dataclass(frozen=True)
class Keeper:
    """A root that keeps an object: its name or its link's path, and a shortest way to the object."""

    root: str
    kind: RootKind
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class _Place:
    """An object that was reached, and the key of the build that it stands for, where there is one."""

    object: Digest
    key: Digest | None = None


def keepers(store: "Store", target: Digest) -> list[Keeper]:
    """Return the roots that keep an object: named ones first, of these the nearest ones.

    Objects that living processes hold are kept as well, for as long as these processes live; that is not told.
    """
    found = [
        Keeper(name, kind, steps)
        for name, kind, root in _roots(store)
        if (steps := _way(store, root, target)) is not None
    ]
    order: tuple[RootKind, ...] = ("named", "link", "automatic")
    return sorted(found, key=lambda each: (order.index(each.kind), len(each.steps), each.root))


def _roots(store: "Store") -> Iterator[tuple[str, RootKind, "Root"]]:
    from dis_store import Root

    for name, root in store.roots().items():
        yield name, "automatic" if root.automatic else "named", root
    for link in store.result_links():
        if link.target is not None:
            same = link.root.object == link.target
            yield str(link.link), "link", link.root if same else Root(link.target)


def _way(store: "Store", root: "Root", target: Digest) -> tuple[Step, ...] | None:
    """Return a shortest way from a root to an object, as the collection goes it; None where there is none."""
    start = _Place(root.object, root.key)
    came_from: dict[_Place, tuple[_Place | None, Step]] = {
        start: (None, Step("root", "", root.object))
    }
    pending = deque([start])
    while pending:
        place = pending.popleft()
        if place.object == target:
            return _steps(store, came_from, place)
        for following, step in _following(store, place):
            if following not in came_from:
                came_from[following] = (place, step)
                pending.append(following)
    return None


def _following(store: "Store", place: _Place) -> Iterator[tuple[_Place, Step]]:
    if store.is_valid(place.object):
        for reference in store.references(place.object):
            yield _Place(reference), Step("reference", "", reference)
    if place.key is None:
        return
    for record in store.realisations(place.key):
        for name, output in record.outputs.items():
            yield _Place(output), Step("output", name, output, record.builder)
        for name, source in record.inputs.items():
            step = Step("input", name, source.object, record.builder)
            yield _Place(source.object, source.key), step


def _steps(
    store: "Store", came_from: dict[_Place, tuple[_Place | None, Step]], end: _Place
) -> tuple[Step, ...]:
    steps: list[Step] = []
    before, step = came_from[end]
    while before is not None:
        if step.how == "reference":
            names = ", ".join(entries_to(store, before.object, step.object))
            step = Step("reference", names, step.object)
        steps.append(step)
        before, step = came_from[before]
    return (step, *reversed(steps))
