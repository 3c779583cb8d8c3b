"""Where a manifest's lock is: a file, or inside the manifest itself.

`artifacts.lockfile` is relative to the working directory; without it the lock is beside the
manifest, as `<name of the manifest>.lock.json`. No schema is imported here, so that a plan cache can
read locks cheaply.
"""

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from dis_derivations.manifest import json_pointer
from dis_derivations.manifest.reading import RawManifest, open_without_waiting
from dis_store.errors import DisError, InvalidInputError, UnfitEnvironmentError

MAX_LOCK_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, eq=False, repr=False)
class LockLocation:
    """The place of a lock, whether there is one yet or not.

    Attributes:
        path: The lockfile; None where the manifest holds its lock itself.
        embedded: That lock, as JSON.
    """

    path: Path | None
    embedded: bytes | None = None

    @classmethod
    def of(cls, raw: RawManifest) -> "LockLocation":
        """Return where a manifest says that its lock is."""
        declared = json_pointer.get(raw.document, "/artifacts/lockfile")
        if isinstance(declared, dict):
            return cls(None, json.dumps(declared, sort_keys=True).encode())
        if isinstance(declared, str) and declared.strip():
            return cls(Path(declared))
        return cls(raw.path.with_name(f"{raw.path.stem}.lock.json"))

    def read(self) -> bytes | None:
        """Return the bytes of the lock; None where there is none yet.

        Raises:
            InvalidInputError: There is something else, or it cannot be read.
        """
        if self.path is None:
            return self.embedded
        try:
            with open(self.path, "rb", opener=open_without_waiting) as stream:
                if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                    raise InvalidInputError(f"the lock {self.path} is not a regular file")
                data = stream.read(MAX_LOCK_BYTES + 1)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InvalidInputError(f"the lock {self.path} cannot be read", cause=reason) from error
        if len(data) > MAX_LOCK_BYTES:
            raise InvalidInputError(
                f"the lock {self.path} is larger than {MAX_LOCK_BYTES // 2**20} MiB"
            )
        return data

    def check_writable(self) -> Path:
        """Refuse a place where no lock can be written, before anything is read for one; return the path.

        Raises:
            InvalidInputError: The manifest holds its lock itself, and dis does not rewrite manifests.
            UnfitEnvironmentError: The directory cannot be written.
        """
        if self.path is None:
            raise InvalidInputError(
                "the lock inside the manifest cannot be replaced",
                cause="artifacts.lockfile holds a lock and names no file, and dis changes no manifest",
                hint="name a file: --set artifacts.lockfile=PATH",
            )
        directory = _nearest_directory(self.path.absolute())
        if not os.access(directory, os.W_OK | os.X_OK):
            raise _unwritable(self.path, f"{directory} is not writable")
        return self.path

    def write(self, data: bytes) -> Path:
        """Write the lock at once, so that a reader finds the old one or the new one; return its path.

        Raises:
            InvalidInputError, UnfitEnvironmentError: As `check_writable`; or it cannot be written.
        """
        from dis_derivations.runs.output_file import write_file

        path = self.check_writable()
        try:
            write_file(path, data, replace=True)
        except DisError as error:
            raise _unwritable(path, error.cause or error.what) from error
        return path


def _nearest_directory(path: Path) -> Path:
    return next((parent for parent in path.parents if parent.is_dir()), Path(path.anchor))


def _unwritable(path: Path, cause: str | None) -> UnfitEnvironmentError:
    return UnfitEnvironmentError(
        f"the lock {path} cannot be written",
        cause=cause,
        hint="name another file: --set artifacts.lockfile=PATH",
    )
