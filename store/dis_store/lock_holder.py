"""Who holds a lock, as the lock file says it."""

import contextlib
import json
import os
import socket
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True)
class LockHolder:
    """Who holds a lock: process id, host, command and since when (UTC, ISO 8601)."""

    pid: int
    host: str
    command: str
    since: str

    def __str__(self) -> str:
        if self == UNKNOWN:
            return "another process"
        return f"{self.command!r}, process {self.pid} on {self.host}, since {self.since},"


UNKNOWN = LockHolder(0, "unknown", "unknown", "unknown")


def write(descriptor: int) -> None:
    """Say in an open lock file that this process holds the lock."""
    # Only the program and its first argument: later ones may hold secrets.
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]])
    since = datetime.now(UTC).isoformat(timespec="seconds")
    holder = LockHolder(os.getpid(), socket.gethostname(), command, since)
    # Who holds the lock is a courtesy to the others; a full disk must not stop the build for it.
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(vars(holder)).encode("utf-8", "replace"), 0)


def read(descriptor: int) -> LockHolder:
    """Return who an open lock file says holds the lock."""
    try:
        return LockHolder(**json.loads(os.pread(descriptor, 65536, 0)))
    except (OSError, ValueError, TypeError, RecursionError):
        # It holds the lock and has not yet said who it is.
        return UNKNOWN


def read_living(descriptor: int) -> LockHolder:
    """Return who an open lock file says holds the lock, unless that process of this machine is gone."""
    holder = read(descriptor)
    if holder.host == socket.gethostname() and not _is_alive(holder.pid):
        return UNKNOWN
    return holder


def clear(descriptor: int) -> None:
    """Take back what `write` said."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError, TypeError):  # somebody else's, or no number of a process
        return True
    return True
