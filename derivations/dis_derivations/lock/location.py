"""Where the lock of a manifest is: in the file that `artifacts.lockfile` names, beside the manifest, or in it.

This module is on the path of a realisation with nothing to do, so it reads bytes and decodes nothing.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dis_store.errors import InvalidInputError, UnfitEnvironmentError

from dis_derivations.manifest.reading import RawManifest


@dataclass(frozen=True)
class LockLocation:
    """Where a lock is read from and written to.

    Attributes:
        path: The lock file; None when the manifest holds its lock itself.
        embedded: The lock that the manifest holds.
    """

    path: Path | None
    embedded: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, raw: RawManifest) -> "LockLocation":
        """Return where the lock of `raw` is.

        A path in `artifacts.lockfile` is relative to the working directory, as existing users have it; without one the
        lock of `name.json` is `name.lock.json` beside it.

        Raises:
            InvalidInputError: `artifacts.lockfile` is neither a path nor an object.
        """
        artifacts = raw.document.get("artifacts")
        lockfile = artifacts.get("lockfile") if isinstance(artifacts, dict) else None
        if lockfile is None:
            return cls(raw.path.with_name(f"{raw.path.name.removesuffix('.json')}.lock.json"))
        if isinstance(lockfile, dict):
            return cls(None, lockfile)
        if isinstance(lockfile, str) and lockfile:
            return cls(Path(lockfile))
        raise InvalidInputError(
            f"{raw.path} has a wrong artifacts.lockfile", cause="it must be a path, or a lock as an object"
        )

    def read(self) -> bytes | None:
        """Return the lock's bytes, or None where there is no lock yet.

        Raises:
            InvalidInputError: There is a file, but it cannot be read.
        """
        if self.path is None:
            return json.dumps(self.embedded, ensure_ascii=False).encode()
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidInputError(f"the lock {self.path} cannot be read", cause=error.strerror) from error

    def write(self, data: bytes) -> Path:
        """Replace the lock file, whole or not at all, and return its path.

        Raises:
            InvalidInputError: The manifest holds its lock itself.
            UnfitEnvironmentError: The file cannot be written.
        """
        if self.path is None:
            raise InvalidInputError(
                "the lock embedded in the manifest is stale, and dis does not edit manifests",
                hint="name a lock file instead: --set artifacts.lockfile=PATH",
            )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _replace(self.path, data)
        except OSError as error:
            raise UnfitEnvironmentError(
                f"the lock {self.path} cannot be written",
                cause=error.strerror,
                hint="make the directory writable, or name another file: --set artifacts.lockfile=PATH",
            ) from error
        return self.path


def _replace(path: Path, data: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
