"""Which automatic roots a policy gives up. Named roots are never given up."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dis_store.roots import Root


@dataclass(frozen=True)
class RetirementPolicy:
    """What `dis gc --older-than` and `--keep-last` ask for.

    Attributes:
        older_than: Retire automatic roots older than this; None: whatever their age.
        keep_last: Never retire this many of the newest automatic roots; None: as if 0.

    Nothing is retired when both are None.
    """

    older_than: timedelta | None = None
    keep_last: int | None = None

    def retired(self, roots: Mapping[str, Root], now: datetime | None = None) -> list[str]:
        """Return the names of the roots to give up, oldest first."""
        if self.older_than is None and self.keep_last is None:
            return []
        automatic = [(_time(root), name) for name, root in roots.items() if root.automatic]
        automatic.sort()
        candidates = automatic[: max(0, len(automatic) - (self.keep_last or 0))]
        if self.older_than is None:
            return [name for _, name in candidates]
        limit = (now or datetime.now(UTC)) - self.older_than
        # A root without a readable time has no age.
        return [name for time, name in candidates if _NO_TIME < time < limit]


_NO_TIME = datetime.min.replace(tzinfo=UTC)


def _time(root: Root) -> datetime:
    try:
        time = datetime.fromisoformat(root.created_at)
    except ValueError:
        return _NO_TIME
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
