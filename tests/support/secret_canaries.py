"""Secrets that must be nowhere but on the way to whom they are for, and a look at all places where they could be."""

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

_SECONDS_BETWEEN_LOOKS = 0.005


@dataclass(frozen=True)
class Canary:
    """A secret.

    Attributes:
        secret: With letters that addresses escape.
        user: Whom it belongs to.
    """

    secret: str
    user: str = "user"

    def forms(self) -> set[bytes]:
        """Return it as it may be written."""
        pair = f"{self.user}:{self.secret}".encode()
        return {
            self.secret.encode(),
            quote(self.secret, safe="").encode(),
            base64.b64encode(pair).rstrip(b"="),
            base64.b64encode(self.secret.encode()).rstrip(b"="),
            repr(self.secret).strip("'").encode(),
        }

    def is_in(self, data: bytes) -> bool:
        """Tell whether bytes hold it, in any form."""
        return any(form in data for form in self.forms())

    def places(self, top: Path) -> list[Path]:
        """Return the files below a directory that hold it."""
        return [
            path
            for path in sorted(top.rglob("*"))
            if path.is_file() and not path.is_symlink() and self.is_in(path.read_bytes())
        ]


@dataclass
class Sighting:
    """What processes showed while they were watched.

    Attributes:
        command_lines: Of all of them.
        environments: By the command line of the process.
    """

    command_lines: set[bytes] = field(default_factory=set)
    environments: dict[bytes, set[bytes]] = field(default_factory=dict)

    def look(self, mark: bytes) -> None:
        """Look at every process whose environment holds a mark."""
        for process in Path("/proc").glob("[0-9]*"):
            try:
                environment = (process / "environ").read_bytes()
                line = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if mark in environment and line:
                self.command_lines.add(line)
                self.environments.setdefault(line, set()).add(environment)


@contextmanager
def watched(mark: str) -> Iterator[Sighting]:
    """Watch all processes that have a variable with this value, and their children, for the time of a block."""
    sighting = Sighting()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_SECONDS_BETWEEN_LOOKS):
            sighting.look(mark.encode())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield sighting
    finally:
        over.set()
        watcher.join()
