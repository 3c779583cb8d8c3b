"""Whether an engine ran on what its result is keyed by: the platform is measured before loading, and told after it."""

from collections.abc import Mapping
from typing import Any

from dis_store.errors import BuildError

NATIVE = "native"


def check_agreement(engine: str, platform: Mapping[str, Any], reported: Mapping[str, Any]) -> None:
    """Compare what the worker says of its device with the facts of the platform.

    Args:
        engine: What messages call it.
        platform: `class` and `facts`, as in the key of the result.
        reported: The worker's identity.

    Raises:
        BuildError: They differ, so the result would be remembered as what it is not.
    """
    device, wanted = reported["device"], platform["class"]
    if device["type"] != wanted:
        raise BuildError(
            f"{engine} runs on {device['type']}, and the manifest is for {wanted}",
            cause="the class of the platform is part of what a result is remembered by",
            hint="--set hardware.constraints.accelerator_vendor=nvidia says that it runs on NVIDIA GPUs"
            if device["type"] == "cuda"
            else f"name an interpreter whose {engine} is built for NVIDIA GPUs: --{engine.lower()}-python PATH",
        )
    if wanted != "cpu":
        return
    cpu = platform["facts"]["cpu"]
    capped = cpu["instruction_set"]["aten"]
    if device["threads"] != cpu["threads"]:
        raise _differs(engine, "number of threads", device["threads"], cpu["threads"])
    if capped != NATIVE and device["capability"].lower() != capped:
        raise _differs(engine, "instruction set", device["capability"].lower(), capped)


def _differs(engine: str, what: str, found: object, wanted: object) -> BuildError:
    return BuildError(
        f"{engine} runs with another {what} than it was told",
        cause=f"it reports {found}, and the result would be remembered with {wanted}",
    )
