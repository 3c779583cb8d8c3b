"""How one object comes to refer to another."""

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dis_store.digest import Digest

if TYPE_CHECKING:
    from dis_store import Store


@dataclass(frozen=True)
class Reference:
    """One step of a chain.

    Attributes:
        object: The object that is referred to.
        entries: The entries of the object before it that do so.
    """

    object: Digest
    entries: tuple[str, ...]


def chain_of_references(
    store: "Store", start: Digest, target: Digest
) -> tuple[Reference, ...] | None:
    """Return a shortest chain of references from `start` to `target`; None where there is none.

    The chain is empty when both are the same object.

    Raises:
        IntegrityError: An object on the way is not valid.
    """
    store.tree(start)  # an object that is not there refers to nothing, which is no answer
    came_from: dict[Digest, Digest | None] = {start: None}
    pending = deque([start])
    while pending and target not in came_from:
        current = pending.popleft()
        for each in store.references(current):
            if each not in came_from:
                came_from[each] = current
                pending.append(each)
    if target not in came_from:
        return None
    steps: list[Reference] = []
    current, before = target, came_from[target]
    while before is not None:
        steps.append(Reference(current, entries_to(store, before, current)))
        current, before = before, came_from[before]
    return tuple(reversed(steps))


def entries_to(store: "Store", referrer: Digest, target: Digest) -> tuple[str, ...]:
    """Return the paths of the entries with which an object refers to another."""
    return tuple(entry.path for entry in store.tree(referrer).references if entry.object == target)
