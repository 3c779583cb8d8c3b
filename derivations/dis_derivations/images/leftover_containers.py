"""Containers that a killed process of dis left: told from those that are in use, and removed.

A container says in a label which process it was made by. What runs in one ends with that process, and most are gone
with it; one that was made and not yet started stays.
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dis_derivations.images.docker_engine import DockerEngine

_LABEL = "dev.dis.container"
_OWNER = "dev.dis.owner"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROC = Path("/proc")
_PROCESSES = Path("/proc/self/ns/pid")
# Of a process that cannot be looked for, as one in another container, nothing is taken away while it may be needed.
_STRANGER_SECONDS = 3600
_UNKNOWN = "unknown"


def labels() -> dict[str, str]:
    """Return the labels of a container that this process makes."""
    return {_LABEL: "1", _OWNER: f"{_here()} {os.getpid()} {_began(os.getpid())}"}


def remove_leftovers(engine: "DockerEngine") -> tuple[str, ...]:
    """Remove the containers whose processes are gone; return what the engine called them.

    Raises:
        UnfitEnvironmentError: The engine does not answer any more.
        BuildError: It refuses to tell of containers.
    """
    from docker.errors import APIError

    from dis_derivations.images.docker_engine import answering

    removed = []
    with answering("the engine could not be asked for its containers"):
        for each in engine.client.containers(all=True, filters={"label": _LABEL}):
            if not _is_left(each) or _is_said_by_image(engine, each):
                continue
            # Somebody else may be removing it.
            with suppress(APIError):
                engine.client.remove_container(each["Id"], v=True, force=True)
                removed.append(str(each["Id"]))
    return tuple(removed)


def _is_left(container: Mapping[str, object]) -> bool:
    said = container.get("Labels")
    owner = str(said.get(_OWNER, "")) if isinstance(said, dict) else ""
    here, _, process = owner.rpartition(" ")[0].rpartition(" ")
    if here == _here() != _UNKNOWN and process.isdecimal():
        return _began(int(process)) not in {owner.rpartition(" ")[2], _UNKNOWN}
    made = container.get("Created")
    age = time.time() - made if isinstance(made, int) else 0
    return container.get("State") != "running" and age > _STRANGER_SECONDS


def _is_said_by_image(engine: "DockerEngine", container: Mapping[str, object]) -> bool:
    """Tell whether a container has its label from its image, as one that the user made of an image with such labels."""
    from docker.errors import APIError

    labels = container.get("Labels")
    owner = labels.get(_OWNER) if isinstance(labels, dict) else None
    try:
        config = engine.client.inspect_image(str(container.get("ImageID"))).get("Config") or {}
    except APIError:
        return True  # what is not known is not taken away
    return owner is None or (config.get("Labels") or {}).get(_OWNER) == owner


def _here() -> str:
    """Return where a number means the same process as here: on this start of this machine, among these processes."""
    try:
        return f"{_BOOT.read_text('ascii').strip()} {_PROCESSES.readlink()}"
    except OSError:
        return _UNKNOWN


def _began(process: int) -> str:
    """Return when a process began, in the kernel's count; empty where there is none, `unknown` where it is hidden."""
    try:
        said = (_PROC / str(process) / "stat").read_text("utf-8", "replace")
    except OSError:
        return _UNKNOWN if _is_hidden(process) else ""
    # The name of the program, in brackets, may hold anything.
    return said.rpartition(")")[2].split()[19]


def _is_hidden(process: int) -> bool:
    """Tell whether there is a process of another user, which `/proc` may be set to hide (`hidepid`)."""
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True
