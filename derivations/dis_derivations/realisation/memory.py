"""How much memory a process can still use: what the machine has free, within the limits of its container."""

import os
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")

# The names of limit and usage in version 2 and in version 1 of control groups.
_LIMITS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))


def available_memory(proc: Path = PROC, cgroups: Path = CGROUPS) -> int | None:
    """Return the bytes that a process can still use, or None where the system does not say.

    Args:
        proc: Where the kernel tells of memory and of the process's control groups.
        cgroups: Where control groups are mounted.
    """
    rooms = [room for room in (_machine(proc), *_containers(proc, cgroups)) if room is not None]
    return min(rooms, default=None)


def _machine(proc: Path) -> int | None:
    try:
        for line in (proc / "meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (OSError, ValueError):
        return None


def _containers(proc: Path, cgroups: Path) -> Iterator[int | None]:
    """Yield the room in each control group that the process is in, its parents included."""
    try:
        lines = (proc / "self/cgroup").read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers not in {"", "memory"}:
            continue
        top = cgroups / controllers
        group = top / path.lstrip("/")
        for directory in (group, *group.parents):
            yield _room(directory)
            if directory == top:
                break


def _room(directory: Path) -> int | None:
    """Return what a control group leaves; None where it sets no limit."""
    for limit, usage in _LIMITS:
        try:
            return max(
                0,
                int((directory / limit).read_text("ascii"))
                - int((directory / usage).read_text("ascii")),
            )
        except (OSError, ValueError):  # not there, or "max"
            continue
    return None
