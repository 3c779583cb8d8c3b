"""What of the CPU can change bits: model, instructions that count, threads, and the caps that variables set."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NATIVE = "native"
CPUINFO = Path("/proc/cpuinfo")
# By what numerical libraries choose their code; anything else a CPU can do changes no bit.
COUNTING_FLAGS = (
    "amx_bf16", "amx_fp16", "amx_int8", "amx_tile", "avx", "avx2", "avx512_bf16", "avx512_fp16", "avx512_vnni",
    "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl", "avx_vnni", "f16c", "fma", "sse4_2",
    "asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sme", "sve", "sve2", "svebf16",
)  # fmt: skip
# The variables by which a library is told to use less than the CPU has, by library.
_CAPS: Mapping[str, tuple[str, ...]] = {
    "aten": ("ATEN_CPU_CAPABILITY",),
    "mkl": ("MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR"),
    "onednn": ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"),
}
_THREADS = "OMP_NUM_THREADS"
_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}


def cpu_facts(variables: Mapping[str, str], cpuinfo: Path = CPUINFO) -> dict[str, Any]:
    """Return the facts about the CPU of this machine.

    Args:
        variables: Those of the engine's process.
        cpuinfo: What the kernel says of the first processor is taken for all.
    """
    said = _first_processor(cpuinfo)
    flags = frozenset((said.get("flags") or said.get("Features") or "").split())
    return {
        "architecture": architecture(),
        "vendor": said.get("vendor_id") or said.get("CPU implementer") or "",
        "model": said.get("model name") or said.get("CPU part") or "",
        "family": said.get("cpu family") or said.get("CPU architecture") or "",
        "model_number": said.get("model") or said.get("CPU variant") or "",
        "instruction_set": {
            "flags": [flag for flag in COUNTING_FLAGS if flag in flags],
            **{library: _cap(variables, names) for library, names in sorted(_CAPS.items())},
        },
        "threads": _threads(variables),
    }


def architecture() -> str:
    """Return the architecture of this machine, as the kernel calls it."""
    return canonical_architecture(platform.machine())


def canonical_architecture(name: str) -> str:
    """Return the one name of an architecture that has several."""
    return _NAMES.get(name.lower(), name.lower())


def _first_processor(cpuinfo: Path) -> dict[str, str]:
    try:
        text = cpuinfo.read_text("utf-8", "replace")
    except OSError:
        return {}
    lines = text.split("\n\n", 1)[0].splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip()}


def _cap(variables: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((variables[name].lower() for name in names if variables.get(name)), NATIVE)


def _threads(variables: Mapping[str, str]) -> int:
    """Return the threads of an engine: those that it is told, else one for each processor that this process may use."""
    said = variables.get(_THREADS, "")
    if said.isascii() and said.isdecimal() and int(said) > 0:
        return int(said)
    return len(os.sched_getaffinity(0))
