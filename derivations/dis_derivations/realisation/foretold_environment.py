"""What an engine will be made of, as far as that can be told without reading what is installed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dis_derivations.engines.registry import engine_kind
from dis_derivations.environments.wheel_names import is_package
from dis_derivations.graph.engine_process import EngineEnvironment
from dis_derivations.lock.document import Lock
from dis_derivations.manifest.artifact_groups import IMAGE
from dis_derivations.realisation.engine_environment import find_engine_environment


def foretold_environment(
    document: Mapping[str, Any], lock: Lock, interpreter: Path | None
) -> EngineEnvironment | None:
    """Return what an engine will run in where the lock pins an image or packages: then that is told in a moment.

    What is installed somewhere is known by the digest of all its files, and what a server is by asking it. Both are
    left to the realisation, and None is returned.

    Args:
        document: The manifest.
        lock: Its lock.
        interpreter: The Python that the user named.

    Raises:
        UnfitEnvironmentError: The packages are pinned, and the interpreter is none.
    """
    named = interpreter is None and bool(lock.files_of(IMAGE))
    pinned = named or any(is_package(file.name) for file in lock.artifacts)
    if not pinned or not engine_kind(document["runtime"]["execution"]["backend"]).has_process:
        return None
    found = find_engine_environment(document, lock, interpreter)
    return None if found is None else found.environment


def is_left_open(document: Mapping[str, Any], environment: EngineEnvironment | None) -> bool:
    """Tell whether a graph that is compiled with an environment lacks one, so that a realisation has other digests."""
    return (
        environment is None and engine_kind(document["runtime"]["execution"]["backend"]).has_process
    )
