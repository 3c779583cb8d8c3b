"""What a realisation would build."""

from dataclasses import dataclass

from dis_store.digest import Digest


@dataclass(frozen=True)
class PlannedBuild:
    """A build that a realisation would start now.

    Attributes:
        fetched_bytes: Of the files that the store does not have.
        origin: Where they are fetched from; empty where nothing is.
    """

    name: str
    builder: str
    derivation: Digest
    fetched_bytes: int = 0
    origin: str = ""


@dataclass(frozen=True)
class PlannedDownload:
    """A file that would be downloaded while the manifest is locked.

    Attributes:
        artifact: What it is a part of.
        size: Bytes; None where no server tells.
        origin: Where it is fetched from.
    """

    artifact: str
    path: str
    size: int | None
    origin: str


@dataclass(frozen=True)
class DryRun:
    """What a realisation would do.

    Attributes:
        locks: The manifest would be locked first, so the builds are not known yet.
        builds: The missing builds, inputs first, then those that would be made again; a missing one
            may turn out to be known once its inputs are.
        downloads: What would be downloaded to lock the manifest.
    """

    target: str
    locks: bool
    builds: tuple[PlannedBuild, ...]
    downloads: tuple[PlannedDownload, ...] = ()
