"""The variables of a worker: those that a manifest gives, a few that no result can depend on, none of the caller.

Whatever the caller has in its environment (tokens, proxies, thread counts, library paths) does not reach a worker, for
it would be part of what was computed and of no record.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_PATH = "/usr/local/bin:/usr/bin:/bin"
_SECRET = re.compile(r"TOKEN(?!IZER)|SECRET|PASSW|CREDENTIAL|API_KEY|_KEY$|PROXY$", re.IGNORECASE)
_OUTSIDE = re.compile(r"PYTHON(?!HASHSEED$)\w*|LD_(PRELOAD|LIBRARY_PATH|AUDIT)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def declared_variables(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables that a manifest gives to the process of its engine.

    What is said more closely counts: `vllm.env` before `cuda_stack.env`, that before `runtime.env`, and that before
    threads and locale.
    """
    runtime = document["runtime"]
    locale, threads = runtime.get("locale") or {}, runtime.get("threads") or {}
    return {
        "LANG": locale.get("lang", "C.UTF-8"),
        "LC_ALL": locale.get("lang", "C.UTF-8"),
        "TZ": locale.get("tz", "UTC"),
        **{name.upper(): str(count) for name, count in threads.items() if count is not None},
        **runtime.get("env", {}),
        **(document.get("cuda_stack", {}).get("env") or {}),
        **document["vllm"].get("env", {}),
    }


def refused_variables(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line for each variable that a manifest may not give to an engine's process."""
    blocks = {
        "runtime.env": document["runtime"].get("env", {}),
        "cuda_stack.env": document.get("cuda_stack", {}).get("env") or {},
        "vllm.env": document["vllm"].get("env", {}),
    }
    for block, variables in blocks.items():
        for name, value in variables.items():
            if not _NAME.fullmatch(name) or "\0" in value:
                yield f"{block}.{name}: no variable of a process can be called or be that"
            elif _SECRET.search(name):
                yield f"{block}.{name}: secrets and proxies are kept out of manifests and of engines"
            elif _OUTSIDE.fullmatch(name):
                yield f"{block}.{name}: it would load code that nothing pins"


def worker_environment(declared: Mapping[str, str], directory: Path) -> dict[str, str]:
    """Return all variables of a worker.

    Args:
        declared: What the derivation says.
        directory: Where the worker may write.
    """
    place = str(directory)
    return {
        "PATH": _PATH,
        "HOME": place,
        "TMPDIR": place,
        "XDG_CACHE_HOME": f"{place}/cache",
        "XDG_CONFIG_HOME": f"{place}/config",
        **declared,
    }
