"""How many builds of one key made the same bits."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dis_store.digest import Digest

if TYPE_CHECKING:
    from dis_derivations.realisation.target import RealisedTarget
    from dis_store import Store


@dataclass(frozen=True)
class Reproductions:
    """The builds of one key.

    Attributes:
        key: What they are remembered by.
        builds: How many builds there are.
        identical: How many of them have the compared outputs of the chosen one, itself included.
    """

    key: Digest
    builds: int
    identical: int


def reproductions_of(store: "Store", realised: "RealisedTarget") -> Reproductions:
    """Return the reproductions of what `--rebuild` built again: of a run, its generation; else the target itself."""
    return count(store, realised.rebuilds[0].key if realised.rebuilds else realised.key)


def count(store: "Store", key: Digest) -> Reproductions:
    """Return the reproductions of one key.

    A substituted result is no build: nobody here has reproduced it.
    """
    records = store.realisations(key)
    if not records:
        return Reproductions(key, 0, 0)
    chosen = records[0]
    built = [record for record in records if record.origin != "substituted"]
    same = sum(
        all(record.outputs[name] == chosen.outputs[name] for name in chosen.compared)
        for record in built
    )
    return Reproductions(key, len(built), same)
