"""The facts about this machine that can change the bits of a result, by platform class."""

from collections.abc import Mapping
from typing import Any

from dis_derivations.graph.derivation import PlatformClass


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
        UnfitEnvironmentError: The machine is not of the class.
    """
    if platform in {"any", "server"}:
        return {}  # what a server runs on is in the closure, as far as it tells
    from dis_derivations.realisation.cpu_facts import cpu_facts

    facts: dict[str, Any] = {"cpu": cpu_facts(variables or {})}
    if platform == "cuda":
        from dis_derivations.realisation.nvidia_facts import nvidia_facts

        facts |= nvidia_facts(variables or {})
    return facts
