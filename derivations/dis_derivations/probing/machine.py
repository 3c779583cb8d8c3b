"""What a check needs to know of the machine: its processors, and how libraries are told to use less of them."""

import importlib
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.engines.registry import engine_kind
from dis_derivations.engines.vllm.settings import PREFIX_CACHING
from dis_derivations.graph.engine_process import engine_variables
from dis_derivations.realisation import platform_facts

SERVER = "server"
_X86 = {"x86_64", "AMD64"}
# Instruction sets by what vLLM's libraries call them: what PyTorch is told, then oneDNN. The second is for a CPU that
# has no more than the first.
_CAPS = (("avx512f", "avx2", "AVX2"), ("avx2", "default", "SSE41"))


@dataclass(frozen=True)
class Machine:
    """The facts that decide which experiments there can be.

    Attributes:
        processors: How many this process may use.
        threads: How many the engine uses; None where nobody told it.
        caps: By which variables the engine is made to compute with fewer instructions, the tightest first.
        server_caches: Whether the engine is a server that says that its prefix cache is on; None where none says so.
    """

    processors: int
    threads: int | None
    caps: tuple[Mapping[str, str], ...]
    server_caches: bool | None = None


def measure(
    document: Mapping[str, Any], server_settings: Mapping[str, Any] | None = None
) -> Machine:
    """Return the facts of this machine for the engine of a manifest.

    Args:
        document: The manifest.
        server_settings: What a server tells of its settings; None where it tells nothing, or there is none.

    Raises:
        UnfitEnvironmentError: It has not the accelerator that the manifest wants.
    """
    engine = engine_kind(document["runtime"]["execution"]["backend"])
    processors = len(os.sched_getaffinity(0))
    if engine.platform == SERVER:
        caches = (server_settings or {}).get(PREFIX_CACHING)
        return Machine(processors, None, (), caches if isinstance(caches, bool) else None)
    if not engine.has_process:
        return Machine(processors, None, _numpy_caps())
    facts = platform_facts.measure(
        engine.platform_of(document), engine_variables(engine, document)
    )["cpu"]
    return Machine(processors, int(facts["threads"]), _worker_caps(facts))


def _worker_caps(facts: Mapping[str, Any]) -> tuple[Mapping[str, str], ...]:
    flags = facts["instruction_set"]["flags"]
    for flag, aten, onednn in _CAPS:
        if flag in flags:
            only_aten = {"ATEN_CPU_CAPABILITY": aten}
            return ({**only_aten, "ONEDNN_MAX_CPU_ISA": onednn}, only_aten)
    return ()


def _numpy_caps() -> tuple[Mapping[str, str], ...]:
    """Return what makes numpy and OpenBLAS do without most of what this CPU has."""
    import numpy as np

    optional = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    caps = {"NPY_DISABLE_CPU_FEATURES": " ".join(optional)} if optional else {}
    if platform.machine() in _X86 and _computes_with_openblas():
        caps["OPENBLAS_CORETYPE"] = "Prescott"
    return (caps,) if caps else ()


def _computes_with_openblas() -> bool:
    machine = importlib.import_module("dis_derivations.engines.reference.machine")
    return bool(machine.loaded_openblas())
