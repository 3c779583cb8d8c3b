"""Which automatic roots a policy gives up. Named roots are never given up."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dis_store.garbage_collection.retention import DAYS_OF_EVIDENCE, kept
from dis_store.garbage_collection.use_history import LastUse
from dis_store.roots import Root


@dataclass(frozen=True)
class RetirementPolicy:
    """What `dis gc --older-than` and `--keep-last` ask for.

    Attributes:
        older_than: Retire automatic roots that were last used longer ago than this; None: whenever that was. The clock
            alone is not believed: the store must also have been used on `DAYS_OF_EVIDENCE` later days.
        keep_last: Never retire this many of the automatic roots that were used last; None: as if 0.

    Nothing is retired when both are None. What a root's `retention` keeps stays in any case.
    """

    older_than: timedelta | None = None
    keep_last: int | None = None

    def retired(
        self, roots: Mapping[str, Root], uses: Mapping[str, LastUse], now: datetime | None = None
    ) -> list[str]:
        """Return the names of the roots to give up, least recently used first.

        Args:
            roots: All named roots.
            uses: Their last uses; a root without one is not given up.
            now: The time; the clock's if it is not given.
        """
        return [
            name
            for name in self._over(roots, uses, now)
            if kept(roots[name], uses[name], now) is None
        ]

    def retained(
        self, roots: Mapping[str, Root], uses: Mapping[str, LastUse], now: datetime | None = None
    ) -> list[str]:
        """Return the names of roots that stay only because they must be kept for some time yet.

        Args:
            roots: As for `retired`.
            uses: As for `retired`.
            now: As for `retired`.
        """
        return [
            name
            for name in self._over(roots, uses, now)
            if kept(roots[name], uses[name], now) is not None
        ]

    def unproven(
        self, roots: Mapping[str, Root], uses: Mapping[str, LastUse], now: datetime | None = None
    ) -> list[str]:
        """Return the names of roots that stay because only the clock calls them old: people will ask why.

        Args:
            roots: As for `retired`.
            uses: As for `retired`.
            now: As for `retired`.
        """
        return [
            name
            for name in self._allowed(roots, uses)
            if self._is_old(uses[name], now) and uses[name].days_since < DAYS_OF_EVIDENCE
        ]

    def _allowed(self, roots: Mapping[str, Root], uses: Mapping[str, LastUse]) -> list[str]:
        """Return the automatic roots but those of `keep_last`, least recently used first."""
        automatic = sorted(
            (uses[name].stamp, name)
            for name, root in roots.items()
            if root.automatic and name in uses
        )
        return [name for _, name in automatic[: max(0, len(automatic) - (self.keep_last or 0))]]

    def _over(
        self, roots: Mapping[str, Root], uses: Mapping[str, LastUse], now: datetime | None
    ) -> list[str]:
        """Return the names of the roots that the policy gives up, whatever their `retention`."""
        if self.older_than is None and self.keep_last is None:
            return []
        return [name for name in self._allowed(roots, uses) if self._is_over(uses[name], now)]

    def _is_over(self, use: LastUse, now: datetime | None) -> bool:
        """Return whether a root may go by its age."""
        return self.older_than is None or (
            self._is_old(use, now) and use.days_since >= DAYS_OF_EVIDENCE
        )

    def _is_old(self, use: LastUse, now: datetime | None) -> bool:
        limit = self.older_than
        return limit is not None and use.time < (now or datetime.now(UTC)) - limit
