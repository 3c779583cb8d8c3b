"""Run by an interpreter that is to be known: prints what it is as one line of JSON. Plain Python from 3.9 on.

Usage: `python -I probe_script.py DIRECTORY`, where DIRECTORY holds the package `packaging`.
"""

import json
import os
import platform
import sys


def main() -> None:
    """Print the line."""
    found = list(sys.path)
    # At the end, so that only `packaging` is taken from there, and that only where the interpreter has none itself.
    sys.path.append(sys.argv[1])
    from packaging.markers import default_environment
    from packaging.tags import sys_tags

    name, version = platform.libc_ver()
    answer = {
        "version": platform.python_version(),
        "implementation": sys.implementation.name,
        "libc": f"{name} {version}".strip(),
        "machine": platform.machine(),
        "executable": sys.executable,
        "tags": [str(tag) for tag in sys_tags()],
        "markers": dict(default_environment()),
        "path": found,
        "standard_library": standard_library(found),
    }
    sys.stdout.write(f"\n{json.dumps(answer)}\n")


def standard_library(entries: "list[str]") -> "list[str]":
    """Return those entries of `sys.path` that belong to the interpreter itself."""
    own = os.path.dirname(os.__file__)  # noqa: PTH120 - as `sys.path` has it
    archive = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    return [
        entry
        for entry in entries
        if entry in (own, os.path.join(own, "lib-dynload"))  # noqa: PTH118 - as above
        or os.path.basename(entry) == archive  # noqa: PTH119 - as above
    ]


if __name__ == "__main__":
    main()
