"""The process or the server of an engine that is no part of dis, as far as it is part of a result's identity."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.engines.child.environment import declared_variables
from dis_derivations.engines.registry import SERVER, TRANSFORMERS, EngineKind

PINNED, INSTALLED, IN_IMAGE = "pinned", "installed", "image"


@dataclass(frozen=True)
class EngineEnvironment:
    """What an engine is made of.

    Attributes:
        identity: What enters the closure: `kind` (`pinned`: an object of the store, `installed`: what an interpreter
            has, by the digest of all its files, `image`: what an image has, `unpinned`: nobody knows, `server`: what a
            server tells) and what identifies it. A pinned environment that runs on the same Python in an image and
            outside is the same.
        occasion: For an unpinned one, a word that was never used before: nothing of the store may answer for a result
            whose engine is not known.
    """

    identity: Mapping[str, Any]
    occasion: str | None = None


def engine_variables(engine: EngineKind, document: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of an engine's process that a manifest leads to; none for an engine that has none."""
    if not engine.has_process:
        return {}
    if engine.name == TRANSFORMERS.name:
        from dis_derivations.engines.transformers import settings

        return settings.process_variables(declared_variables(document))
    from dis_derivations.engines.vllm.settings import process_variables

    return process_variables(document, declared_variables(document))


def closure_members(
    engine: EngineKind, document: Mapping[str, Any], environment: EngineEnvironment | None
) -> dict[str, Any]:
    """Return what the closure says of an engine, beside the model.

    Args:
        engine: Which.
        document: The manifest.
        environment: What it is made of; None while that is not known, as when a graph is only shown.
    """
    described: dict[str, Any] = {
        "name": engine.name,
        "numerics": engine.numerics,
        "settings": engine.settings(document["vllm"].get("engine_args", {})),
    }
    if not engine.has_process and engine.name != SERVER.name:
        return {"engine": described}
    if engine.has_process:
        described["variables"] = engine_variables(engine, document)
    identity = None if environment is None else dict(environment.identity)
    return {"engine": described, "environment": identity}
