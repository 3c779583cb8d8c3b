"""What a run used in place of what its lock declares, file by file, where the lock's digests were not verified."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dis_store.digest import Sha256

if TYPE_CHECKING:
    from dis_derivations.lock.document import Lock

FLAG = "--no-verify-artifact-digests"
# The member of `bundle.json`, and of the arguments of the `run` derivation, that holds all this; others have none.
MEMBER = "artifact_digests"


@dataclass(frozen=True)
class UsedFile:
    """One locked file.

    Attributes:
        name: The artifact, such as `model.weight`.
        path: In the artifact's object.
        declared: The digest in the lock.
        used: The digest of the bytes that were used.
    """

    name: str
    path: str
    declared: Sha256
    used: Sha256

    @property
    def differs(self) -> bool:
        """Whether the bytes are others than the lock says."""
        return self.declared != self.used

    def to_json(self) -> dict[str, str]:
        """Return the file as the documents have it."""
        return {
            "name": self.name,
            "path": self.path,
            "declared": str(self.declared),
            "used": str(self.used),
        }


@dataclass(frozen=True)
class UnverifiedDigests:
    """Every file of a lock whose digests were not verified.

    Attributes:
        files: In the order of the lock.
    """

    files: tuple[UsedFile, ...]

    @classmethod
    def between(cls, lock: "Lock", present: "Lock") -> "UnverifiedDigests":
        """Return what was used: the files of a lock, and the same files as they were found."""
        used = {(file.name, file.path): file.digest for file in present.artifacts}
        return cls(
            tuple(
                UsedFile(file.name, file.path, file.digest, used[file.name, file.path])
                for file in lock.artifacts
            )
        )

    @property
    def differing(self) -> tuple[UsedFile, ...]:
        """The files whose bytes are others than the lock says."""
        return tuple(file for file in self.files if file.differs)

    @property
    def statement(self) -> str:
        """How many files differ, and the first of them, in words."""
        differing, count = self.differing, len(self.files)
        if not differing:
            return f"all {count} files happened to be those of the lock"
        verb = "differs" if len(differing) == 1 else "differ"
        shown = ", ".join(f"{file.name} {file.path}" for file in differing[:3])
        more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""  # noqa: PLR2004 - as above
        return f"{len(differing)} of {count} files {verb} from the lock: {shown}{more}"

    def used_in(self, name: str) -> Mapping[str, Sha256]:
        """Return the digests that were used of an artifact's files, by path."""
        return {file.path: file.used for file in self.files if file.name == name}

    def to_json(self) -> dict[str, Any]:
        """Return the record as `bundle.json` has it."""
        return {"verified": False, "files": [file.to_json() for file in self.files]}
