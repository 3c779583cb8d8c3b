"""Until when a root is kept at least, whatever a policy says.

As with what makes a root old, the clock alone is not believed: a retention is over when the clock says so and the store
was used on some later days. In doubt the root stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dis_store.errors import RetainedRootError
from dis_store.garbage_collection.use_history import LastUse, last_uses
from dis_store.layout import Layout
from dis_store.roots import Root

# A clock that jumps makes anything old in a moment, and not three days of use.
DAYS_OF_EVIDENCE = 3


@dataclass(frozen=True)
class Kept:
    """A root that must be kept.

    Attributes:
        until: When that ends by the clock, at the earliest.
        by: What asked for it.
        is_proven: Whether `until` is still to come; else only the clock says that it is over.
    """

    until: datetime
    by: str
    is_proven: bool = True

    @property
    def date(self) -> str:
        """The day on which it ends, in UTC."""
        return self.until.date().isoformat()

    @property
    def text(self) -> str:
        """Until when, and because of what, as people read it."""
        said = f"kept until {self.date}, as {self.by} asks"
        if self.is_proven:
            return said
        return (
            f"{said}; that is over by the clock, which may be wrong, so the store must also have been used on"
            f" {DAYS_OF_EVIDENCE} later days"
        )


def kept(root: Root, use: LastUse | None, now: datetime | None = None) -> Kept | None:
    """Return until when a root is kept; None for one that nothing more than its name keeps.

    Args:
        root: The root.
        use: Its last use; without one nobody knows since when, so it is kept from now on.
        now: The time; the clock's if it is not given.
    """
    if root.retention is None:
        return None
    moment = now or datetime.now(UTC)
    start = moment if use is None else max(use.time, _time(root.created_at) or use.time)
    try:
        until = start + timedelta(days=root.retention.days)
    except OverflowError:
        until = datetime.max.replace(tzinfo=UTC)
    ahead = moment < until
    if not ahead and use is not None and use.days_since >= DAYS_OF_EVIDENCE:
        return None
    return Kept(until, root.retention.by, is_proven=ahead)


def kept_roots(layout: Layout, roots: Mapping[str, Root]) -> dict[str, Kept]:
    """Return those of the named roots that must be kept now."""
    retained = {name: root for name, root in roots.items() if root.retention is not None}
    uses = last_uses(layout, retained) if retained else {}
    found = {name: kept(root, uses.get(name)) for name, root in retained.items()}
    return {name: each for name, each in found.items() if each is not None}


def refuse(kept: Mapping[str, Kept]) -> None:
    """Refuse to let go of roots of which some must be kept for some time yet.

    Raises:
        RetainedRootError: There are some; it says which, and until when.
    """
    if kept:
        name, first = next(iter(kept.items()))
        raise RetainedRootError(
            f"the root {name!r} is kept until {first.date}"
            if len(kept) == 1
            else f"{len(kept)} roots are kept for some time yet",
            cause="\n".join(f"{name}: {each.text}" for name, each in kept.items()),
            hint="let go all the same: --force",
        )


def _time(text: str) -> datetime | None:
    """Return when a record says that its root was made; None where it does not say it in a way that can be read."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
