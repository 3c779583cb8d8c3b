"""A manifest's hardware constraints, held against this machine before anything is loaded."""

from collections.abc import Mapping
from typing import Any

from dis_derivations.engines.registry import engine_kind
from dis_derivations.graph.engine_process import engine_variables
from dis_derivations.realisation import platform_facts
from dis_derivations.runs.bundle import ANY_PLATFORM, hardware_finding
from dis_store.errors import UnfitEnvironmentError


def check_hardware(document: Mapping[str, Any]) -> None:
    """Refuse a machine that a manifest with `determinism.strict_hardware` does not allow.

    Without it the run is made, and its bundle says that the machine does not conform.

    Args:
        document: The manifest.

    Raises:
        UnfitEnvironmentError: Lists each constraint that is not met; or the machine has no such accelerator at all.
    """
    engine = engine_kind(document["runtime"]["execution"]["backend"])
    platform = engine.platform_of(document)
    if platform == ANY_PLATFORM:
        return
    facts = platform_facts.measure(platform, engine_variables(engine, document))
    strict = document.get("determinism", {}).get("strict_hardware", False)
    finding = hardware_finding({"class": platform, "facts": facts}, document.get("hardware", {}))
    if finding["conformant"] or not strict:
        return
    reasons = finding["reasons"]
    raise UnfitEnvironmentError(
        "this machine is not one that the manifest allows",
        cause="\n".join(reasons if isinstance(reasons, list) else []),
        hint="run it on one that is, or with --set determinism.strict_hardware=false, which is then said in the bundle",
    )
