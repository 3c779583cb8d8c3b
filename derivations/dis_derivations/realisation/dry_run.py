"""What a realisation would build."""

from dataclasses import dataclass

from dis_store.digest import Digest


@dataclass(frozen=True)
class PlannedBuild:
    """A build that a realisation would start now."""

    name: str
    builder: str
    derivation: Digest
    fetched_bytes: int = 0


@dataclass(frozen=True)
class DryRun:
    """What a realisation would do.

    Attributes:
        locks: The manifest would be locked first, so the builds are not known yet.
        builds: The missing builds, inputs first, then those that would be made again; a missing one
            may turn out to be known once its inputs are.
    """

    target: str
    locks: bool
    builds: tuple[PlannedBuild, ...]
