"""How much a collection is to free before it stops."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SpaceGoal:
    """What `dis gc --max-freed` and `--keep-free` ask for; where both are given, the smaller amount counts.

    Attributes:
        max_freed: Stop as soon as so many bytes are freed; None: no limit.
        keep_free: Stop as soon as the file system of the store has so many bytes left for this user, and retire
            automatic roots for it, least recently used first; None: no such goal.
    """

    max_freed: int | None = None
    keep_free: int | None = None

    def wanted(self, top: Path) -> int | None:
        """Return how many bytes are to be freed in the store at `top`; None for all that can be.

        The store's reserve counts as used.
        """
        amounts = []
        if self.max_freed is not None:
            amounts.append(self.max_freed)
        if self.keep_free is not None:
            amounts.append(max(0, self.keep_free - free_bytes(top)))
        return min(amounts, default=None)


def free_bytes(top: Path) -> int:
    """Return what the file system of a directory has left for this user."""
    status = os.statvfs(top)
    return status.f_bavail * status.f_frsize
