"""The facts about this machine that can change the bits of a result, by platform class."""

from collections.abc import Mapping
from typing import Any

from dis_derivations.graph.derivation import PlatformClass
from dis_store.errors import UnsupportedError


def measure(
    platform: PlatformClass, variables: Mapping[str, str] | None = None
) -> Mapping[str, Any]:
    """Return the facts that enter the key of a build on this machine.

    `any` promises the same bits on every IEEE-754 machine, so nothing about the machine enters. No
    serial number, host name or time is ever a fact.

    Args:
        platform: The class.
        variables: Those of the engine's process, which may take something from the machine.

    Raises:
        UnfitEnvironmentError: The machine is not of the class, or the class belongs to an engine that this version does
            not have.
    """
    if platform == "any":
        return {}
    if platform in {"cpu", "cuda"}:
        from dis_derivations.realisation.cpu_facts import cpu_facts

        facts: dict[str, Any] = {"cpu": cpu_facts(variables or {})}
        if platform == "cuda":
            from dis_derivations.realisation.nvidia_facts import nvidia_facts

            facts |= nvidia_facts(variables or {})
        return facts
    raise UnsupportedError(
        f"builds for platform {platform!r} are not available in this version of dis",
        cause="no engine of this version runs on it",
        hint="use the reference engine: --set runtime.execution.backend=reference",
    )
