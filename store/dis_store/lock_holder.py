"""Who holds a build lock, as the lock file says it."""

import contextlib
import json
import os
import socket
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True)
class LockHolder:
    """Who holds a build lock: process id, host, command and start of the build (UTC, ISO 8601)."""

    pid: int
    host: str
    command: str
    since: str


def write(descriptor: int) -> None:
    """Say in an open lock file that this process holds the lock."""
    # Only the program and its first argument: later ones may hold secrets.
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]])
    since = datetime.now(UTC).isoformat(timespec="seconds")
    holder = LockHolder(os.getpid(), socket.gethostname(), command, since)
    # Who holds the lock is a courtesy to the others; a full disk must not stop the build for it.
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(asdict(holder)).encode("utf-8", "replace"), 0)


def read(descriptor: int) -> LockHolder:
    """Return who an open lock file says holds the lock."""
    try:
        return LockHolder(**json.loads(os.pread(descriptor, 65536, 0)))
    except (OSError, ValueError, TypeError):
        # It holds the lock and has not yet said who it is.
        return LockHolder(0, "unknown", "unknown", "unknown")
