"""What a collection would free once roots are gone."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from dis_command.confirmation import Loss
from dis_store.errors import IntegrityError
from dis_store.garbage_collection.retirement import RetirementPolicy

if TYPE_CHECKING:
    from dis_store import LastUse, Root, Store


@dataclass(frozen=True)
class _Named(RetirementPolicy):
    """Gives up exactly the roots of these names."""

    names: Collection[str] = ()

    def retired(
        self,
        roots: "Mapping[str, Root]",
        uses: "Mapping[str, LastUse]",
        now: datetime | None = None,
    ) -> list[str]:
        """Return those of the names that there are."""
        del uses, now
        return [name for name in roots if name in self.names]


def loss_without(store: "Store", names: Collection[str]) -> Loss | None:
    """Return what nothing keeps any more without these roots; None where nobody can know that.

    What nothing keeps already is not counted.
    """
    try:
        before = store.collect_garbage(dry_run=True)
        after = store.collect_garbage(dry_run=True, policy=_Named(names=names))
    except IntegrityError:  # a damaged root may keep anything
        return None
    return Loss(
        tuple(names),
        len(after.objects) - len(before.objects),
        after.freed_bytes - before.freed_bytes,
    )
