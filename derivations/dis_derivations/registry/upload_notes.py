"""How far uploads came, written down so that a later process can go on. What it says is for its user alone."""

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dis_derivations.transport.address import Address, UnsafeAddressError, follow
from dis_store.digest import Digest, Sha256

_LONGEST = 64 << 10
_SECONDS_KEPT = 86400.0


@dataclass(frozen=True)
class UploadNotes:
    """A directory with one small file for each upload that is not finished."""

    directory: Path

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "UploadNotes":
        """Return the notes of a user."""
        named = environment.get("XDG_STATE_HOME", "")
        home = environment.get("HOME", "/")
        base = Path(named) if Path(named).is_absolute() else Path(home, ".local", "state")
        return cls(base / "dis" / "uploads")

    def write(self, start: Address, digest: Sha256, place: Address, position: int) -> None:
        """Note where an upload goes on; a note that cannot be written costs time, and no more."""
        with contextlib.suppress(OSError):
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = self._path(start, digest)
            temporary = path.with_suffix(f".{os.urandom(8).hex()}")
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump({"place": place.target, "position": position, "time": time.time()}, file)
            temporary.replace(path)

    def read(self, start: Address, digest: Sha256) -> tuple[Address, int] | None:
        """Return where an upload goes on, and how many bytes the registry has; None where nothing is noted."""
        try:
            with self._path(start, digest).open("rb") as file:
                document = json.loads(file.read(_LONGEST))
            position, place = document["position"], document["place"]
            # Registries forget uploads, and what a clock of another time wrote says nothing.
            if not 0 <= time.time() - document["time"] < _SECONDS_KEPT or type(position) is not int:
                return None
            return follow(start, place), position
        except (OSError, ValueError, KeyError, TypeError, AttributeError, UnsafeAddressError):
            return None

    def forget(self, start: Address, digest: Sha256) -> None:
        """Remove what is noted of an upload."""
        with contextlib.suppress(OSError):
            self._path(start, digest).unlink()

    def _path(self, start: Address, digest: Sha256) -> Path:
        return self.directory / f"{Digest.of(f'{start} {digest}'.encode())}.json"
