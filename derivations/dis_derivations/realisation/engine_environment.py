"""What an engine that is no part of dis is made of, and where it runs, found out before anything is built."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from dis_derivations.engines.registry import MOCK, SERVER, EngineKind, engine_kind
from dis_derivations.environments.wheel_names import is_package
from dis_derivations.graph.engine_process import (
    IN_IMAGE,
    INSTALLED,
    PINNED,
    EngineEnvironment,
)
from dis_derivations.lock.document import Lock
from dis_derivations.manifest.artifact_groups import IMAGE
from dis_derivations.runs.bundle import UNPINNED
from dis_store.errors import UnfitEnvironmentError

Place = Literal["image", "environment"]

# The digest is of files, which are not what they were when packages are installed; so it is taken anew each time.
_SHOWN_FAULTS = 3


@dataclass(frozen=True)
class FoundEnvironment:
    """Where an engine runs.

    Attributes:
        interpreter: Its Python; None for a server, and for that of an image.
        environment: What enters the closure; None for an engine that is the same everywhere.
        faults: Why it cannot be pinned; empty where it can. For a server, in what it is not what the manifest wants.
        in_image: Whether it runs in a container of the image of the manifest.
    """

    interpreter: Path | None
    environment: EngineEnvironment | None
    faults: tuple[str, ...] = ()
    in_image: bool = False

    def warning(self) -> str | None:
        """Return what a user should know; None where the environment is pinned."""
        if not self.faults:
            return None
        more = len(self.faults) - _SHOWN_FAULTS
        shown = "; ".join(self.faults[:_SHOWN_FAULTS]) + (f"; and {more} more" if more > 0 else "")
        if self.interpreter is None:
            return f"the run is graded non_conformant_software, for its server is not what the manifest wants: {shown}"
        return (
            f"what {self.interpreter} imports cannot be pinned, so the run is marked unpinned, and nothing in the "
            f"store answers for it: {shown}"
        )


def find_engine_environment(
    document: Mapping[str, Any],
    lock: Lock,
    interpreter: Path | None,
    place: Place | None = None,
) -> FoundEnvironment | None:
    """Return where the engine of a manifest runs; None for an engine that runs in dis.

    An engine with a process of its own runs in the image that its manifest names, unless the user names an interpreter.

    Args:
        document: The manifest.
        lock: Its lock, which pins the packages of an environment or does not, and an image or not.
        interpreter: The Python that the user named.
        place: Where the user wants it to run; None where it is not said.

    Raises:
        UnfitEnvironmentError: It cannot run where the user wants it to; no interpreter is named where one must be, or
            it is none.
    """
    engine = engine_kind(document["runtime"]["execution"]["backend"])
    has_image = bool(lock.files_of(IMAGE))
    if place == "image":
        _check_can_run_in_image(engine, has_image=has_image)
    if engine.name == SERVER.name:
        return _server(document)
    if place == "image" or (
        place is None and engine.has_process and interpreter is None and has_image
    ):
        return _in_image(engine, lock)
    if not engine.has_process:
        return None
    if _pins_packages(lock):
        return _pinned(Path(sys.executable) if interpreter is None else interpreter)
    if interpreter is None:
        raise UnfitEnvironmentError(
            f"it is not known where {engine.name} is installed",
            cause="the manifest pins no packages, and no interpreter is named",
            hint=f"name the Python of an environment that has it: --{engine.name}-python PATH, or "
            f"DIS_{engine.name.upper()}_PYTHON",
        )
    return _installed(interpreter)


def _pins_packages(lock: Lock) -> bool:
    return any(is_package(file.name) for file in lock.artifacts)


def _check_can_run_in_image(engine: EngineKind, *, has_image: bool) -> None:
    if not engine.has_process and engine.name != MOCK.name:
        raise UnfitEnvironmentError(
            f"the engine {engine.name} does not run in an image",
            cause="a server runs where it was started"
            if engine.name == SERVER.name
            else "it is a part of dis, and computes the same everywhere",
            hint="leave --in out",
        )
    if not has_image:
        raise UnfitEnvironmentError(
            "there is no image to run in",
            cause="the manifest names none",
            hint="name one: --set runtime.execution.vllm_image=NAME@sha256:…",
        )


def _in_image(engine: EngineKind, lock: Lock) -> FoundEnvironment:
    """Return what an engine is made of in the image of its manifest, from the lock alone: nothing is run for it."""
    from dis_derivations.images.interpreter_label import interpreter_facts

    if not engine.has_process:
        return FoundEnvironment(None, None, in_image=True)
    source = lock.sources.get(IMAGE, {})
    facts = interpreter_facts(source.get("interpreter"))
    identity: dict[str, Any]
    if not _pins_packages(lock):
        identity = {"kind": IN_IMAGE, "image": source["config"]}
    elif facts is not None:
        # Packages and Python are then what they are outside, and so are, if nothing else counts, the bits.
        identity = {"kind": PINNED, "interpreter": facts}
    else:
        identity = {"kind": PINNED, "image": source["config"]}
    return FoundEnvironment(None, EngineEnvironment(identity), in_image=True)


def _server(document: Mapping[str, Any]) -> FoundEnvironment:
    from dis_derivations.engines.openai_compatible.asking import Server
    from dis_derivations.engines.openai_compatible.engine import DEFAULT_PATIENCE
    from dis_derivations.engines.openai_compatible.identity import read_server, server_identity

    execution = document["runtime"]["execution"]
    patience = float(execution.get("timeout_seconds") or DEFAULT_PATIENCE)
    server = Server.at(execution["base_url"], patience, lambda: None)
    told = read_server(server, (document["vllm"].get("engine_args") or {}).get("model"))
    identity = server_identity(document, told)
    return FoundEnvironment(None, EngineEnvironment(identity), tuple(identity["departures"]))


def _pinned(interpreter: Path) -> FoundEnvironment:
    from dis_derivations.environments.interpreter import probe_interpreter

    found = probe_interpreter(interpreter)
    return FoundEnvironment(
        found.path, EngineEnvironment({"kind": PINNED, "interpreter": found.facts})
    )


def _installed(interpreter: Path) -> FoundEnvironment:
    from dis_derivations.environments.installed import installed_environment

    found = installed_environment(interpreter)
    facts = found.interpreter.facts
    if found.digest is None:
        identity = {"kind": UNPINNED, "interpreter": facts}
        unheard = EngineEnvironment(identity, occasion=uuid4().hex)
        return FoundEnvironment(found.interpreter.path, unheard, found.faults)
    identity = {"kind": INSTALLED, "digest": str(found.digest), "interpreter": facts}
    return FoundEnvironment(found.interpreter.path, EngineEnvironment(identity))
