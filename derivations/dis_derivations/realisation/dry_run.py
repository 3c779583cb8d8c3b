"""What a realisation would build."""

from dataclasses import dataclass, field
from typing import Literal

from dis_store.digest import Digest

Proof = Literal["signature", "content", "none"]
"""Why a build of somebody else is believed: trusted keys signed it; its files are those that its key names; nothing,
because the policy asks for nothing."""


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
class PlannedSubstitution:
    """A build that would come from a registry.

    Attributes:
        fetched_bytes: Of the contents that the store does not have.
        origin: The repository.
        proof: Why it would be believed. All of it is verified once it is here.
    """

    name: str
    builder: str
    derivation: Digest
    fetched_bytes: int
    origin: str
    proof: Proof


@dataclass(frozen=True)
class RefusedSubstitution:
    """A build that a registry has and that would not be taken.

    Attributes:
        origin: The repository.
        reason: Why not; safe for a terminal once printed through `terminal.printable`.
    """

    name: str
    derivation: Digest
    origin: str
    reason: str


@dataclass(frozen=True)
class PlannedSubstitutions:
    """What registries would give.

    Attributes:
        taken: The builds that would come, inputs first.
        refused: Those that are there and would not be taken.
        notes: What else there is to say, as of a registry that cannot be asked.
    """

    taken: tuple[PlannedSubstitution, ...] = ()
    refused: tuple[RefusedSubstitution, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class DryRun:
    """What a realisation would do.

    Attributes:
        locks: The manifest would be locked first, so the builds are not known yet.
        builds: The missing builds, inputs first, then those that would be made again; a missing one
            may turn out to be known once its inputs are.
        downloads: What would be downloaded to lock the manifest.
        substitutions: What would come from registries, and so is not among the builds.
    """

    target: str
    locks: bool
    builds: tuple[PlannedBuild, ...]
    downloads: tuple[PlannedDownload, ...] = ()
    substitutions: PlannedSubstitutions = field(default_factory=PlannedSubstitutions)
