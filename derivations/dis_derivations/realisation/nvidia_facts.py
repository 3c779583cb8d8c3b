"""What of NVIDIA's accelerators can change bits: model, compute capability, how many there are, and the driver."""

import importlib
from collections.abc import Mapping
from typing import Any

from dis_store.errors import UnfitEnvironmentError

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def nvidia_facts(variables: Mapping[str, str], nvml: Any = None) -> dict[str, Any]:
    """Return the facts about the accelerators that an engine would see. No serial number is among them.

    Args:
        variables: Those of the engine's process.
        nvml: The module `pynvml`; imported where it is None.

    Raises:
        UnfitEnvironmentError: There is no NVIDIA driver, no accelerator, or nothing that could ask it.
    """
    library = _library() if nvml is None else nvml
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise UnfitEnvironmentError(
            "this machine has no NVIDIA driver that answers", cause=str(error)
        ) from error
    try:
        every = [
            _facts_of(library, library.nvmlDeviceGetHandleByIndex(index))
            for index in range(library.nvmlDeviceGetCount())
        ]
        visible = _visible(every, variables.get(_VISIBLE))
        driver = _text(library.nvmlSystemGetDriverVersion())
    except library.NVMLError as error:
        raise UnfitEnvironmentError(
            "the NVIDIA driver did not tell about its accelerators", cause=str(error)
        ) from error
    finally:
        library.nvmlShutdown()
    if not visible:
        raise UnfitEnvironmentError("this machine has no NVIDIA accelerator that an engine may use")
    return {"accelerators": visible, "driver": driver}


def _library() -> Any:
    try:
        return importlib.import_module("pynvml")
    except ImportError as error:
        raise UnfitEnvironmentError(
            "NVIDIA's accelerators cannot be looked at",
            cause="the package nvidia-ml-py is not installed",
            hint="pip install 'dis-closures[nvidia]'",
        ) from error


def _facts_of(library: Any, handle: Any) -> dict[str, str]:
    major, minor = library.nvmlDeviceGetCudaComputeCapability(handle)
    return {
        "vendor": "nvidia",
        "model": _text(library.nvmlDeviceGetName(handle)),
        "compute_capability": f"{major}.{minor}",
    }


def _visible(every: list[dict[str, str]], named: str | None) -> list[dict[str, str]]:
    """Return those that `CUDA_VISIBLE_DEVICES` leaves.

    Raises:
        UnfitEnvironmentError: It names them otherwise than by number.
    """
    if named is None:
        return every
    parts = [part.strip() for part in named.split(",") if part.strip()]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise UnfitEnvironmentError(
            f"{_VISIBLE} is {named!r}",
            cause="dis knows accelerators by number, from 0 on, in the order of the PCI bus",
        )
    chosen = []
    for part in parts:
        # CUDA stops at the first number that there is not.
        if int(part) >= len(every):
            break
        chosen.append(every[int(part)])
    return chosen


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
