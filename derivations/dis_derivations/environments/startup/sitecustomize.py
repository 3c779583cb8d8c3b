"""Makes an interpreter import from the standard library and one environment, and from nowhere else.

This directory is the only one in `PYTHONPATH` of a process that `environment_command` starts. `start.py` calls
`use_environment` in that process. In further processes, which that one may start as `python -m …` without any flag,
Python imports this module by its name at the end of its own start.

It runs in the interpreter of the environment, so it is plain Python from 3.9 on and imports `os` and `sys` alone.
"""

import os
import sys

VARIABLE = "DIS_SITE_PACKAGES"


def use_environment() -> None:
    """Make `sys.path` the standard library and the directories that the variable lists, in this order."""
    entries = os.environ.get(VARIABLE, "")
    if entries:
        sys.path[:] = standard_library(sys.path) + entries.split(os.pathsep)


def standard_library(entries: "list[str]") -> "list[str]":
    """Return those entries of `sys.path` that belong to the interpreter itself."""
    own = os.path.dirname(os.__file__)  # noqa: PTH120 - pathlib is slow to import, in every process
    archive = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    return [
        entry
        for entry in entries
        if entry in (own, os.path.join(own, "lib-dynload"))  # noqa: PTH118 - as above
        or os.path.basename(entry) == archive  # noqa: PTH119 - as above
    ]


if __name__ == "sitecustomize":
    use_environment()
