"""Files that an attack on a store would like to change, and a look at all of them."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

NAMES = ("canary", "archive.json", "passwd", ".ssh/authorized_keys", "victim/inside", "planted.sh")
TEMPORARY = "tmp"


@dataclass(frozen=True)
class Surroundings:
    """A directory with a store in it, and canaries around the store.

    Attributes:
        top: The directory; everything in it is open to everybody.
        store: The store.
    """

    top: Path
    store: Path

    @property
    def outside(self) -> Path:
        """A directory in which an attacker would like to write."""
        return self.top / "outside"

    def seen(self) -> dict[str, str]:
        """Return what there is outside the store: kind, mode, owner, links, time and content of each name."""
        found = {}
        for directory, names, files in os.walk(self.top):
            if Path(directory) == self.top:
                names.remove(self.store.name)
            for name in (*names, *files):
                path = Path(directory, name)
                found[str(path.relative_to(self.top))] = _described(path)
        return found


def surround(top: Path) -> Surroundings:
    """Put canaries into a directory and around a store that is yet to be made."""
    for directory in (top, top / "outside", top / "outside" / "deeper"):
        directory.mkdir(exist_ok=True)
        for name in NAMES:
            path = directory / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"the canary {name}\n", "utf-8")
    (top / TEMPORARY).mkdir()
    (top / "store").mkdir()
    for path in [top, *top.rglob("*")]:
        path.chmod(0o777 if path.is_dir() else 0o666)
    return Surroundings(top, top / "store")


def _described(path: Path) -> str:
    status = path.lstat()
    content = blake3(path.read_bytes()).hexdigest() if stat.S_ISREG(status.st_mode) else ""
    # A directory's time tells of names that came and went again, which is what that for temporary files is for.
    time = 0 if path.name == TEMPORARY else status.st_mtime_ns
    return f"{status.st_mode:o} {status.st_uid} {status.st_nlink} {time} {content}"
