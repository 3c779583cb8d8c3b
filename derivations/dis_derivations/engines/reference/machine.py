"""What can be observed of the machine that computes: for the log, never for a digest."""

import ctypes
import platform
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

_PREFIXES = ("scipy_openblas_", "openblas_")
_SUFFIXES = ("64_", "")


def describe_machine() -> dict[str, Any]:
    """Return the numpy version, the BLAS with its kernel and threads when known, CPU features."""
    return {
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "blas": {**_blas_build(), **loaded_openblas()},
        "cpu_features": _cpu_features(),
    }


def loaded_openblas() -> dict[str, Any]:
    """Return kernel and threads of the OpenBLAS that this process uses; empty for another BLAS."""
    for path in _loaded_libraries("openblas"):
        try:
            library = ctypes.CDLL(path)
        except OSError:
            # It is in use all the same; what cannot be observed of it ends no run.
            continue
        for prefix in _PREFIXES:
            for suffix in _SUFFIXES:
                name = getattr(library, f"{prefix}get_corename{suffix}", None)
                threads = getattr(library, f"{prefix}get_num_threads{suffix}", None)
                if name is not None and threads is not None:
                    name.restype = ctypes.c_char_p
                    return {"kernel": name().decode(), "threads": int(threads())}
    return {}


def _loaded_libraries(word: str) -> list[str]:
    """Return the paths of this process's shared libraries whose file name contains `word`."""
    try:
        maps = Path("/proc/self/maps").read_text("utf-8", "replace")
    except OSError:
        return []
    paths = {line.split(maxsplit=5)[-1] for line in maps.splitlines() if "/" in line}
    return sorted(path for path in paths if word in Path(path).name)


def _blas_build() -> dict[str, Any]:
    build: Mapping[str, Any] = np.show_config(mode="dicts")
    dependencies = build.get("Build Dependencies", {})
    blas = dependencies.get("blas", {})
    return {key: blas[key] for key in ("name", "version") if key in blas}


def _cpu_features() -> list[str]:
    """Return the CPU features that numpy found and uses."""
    try:
        module = import_module("numpy._core._multiarray_umath")
    except ImportError:
        return []
    features: Mapping[str, bool] = getattr(module, "__cpu_features__", {})
    return sorted(name for name, present in features.items() if present)
