"""Which versions of the libraries that turn prompts into token ids are installed, found cheaply.

They are part of what a `requests` derivation follows from, so even a realisation with nothing to do
needs them; importing the libraries, or importlib.metadata, would cost more than all the rest of it.
"""

import os
import sys

LIBRARIES = ("jinja2", "tokenizers")

_SUFFIX = ".dist-info"


def library_versions() -> dict[str, str]:
    """Return the version of each of `LIBRARIES`, as installed on `sys.path`.

    Raises:
        importlib.metadata.PackageNotFoundError: One of them is not installed.
    """
    found: dict[str, str] = {}
    for directory in sys.path:
        if len(found) == len(LIBRARIES):
            break
        found = _versions_in(directory) | found
    for library in LIBRARIES:
        if not found.get(library):
            found[library] = _asked_the_slow_way(library)
    return dict(sorted(found.items()))


def _versions_in(directory: str) -> dict[str, str]:
    """Return the versions in one directory; empty for a library that seems to be there twice."""
    try:
        names = os.listdir(directory or ".")  # noqa: PTH208 - pathlib would be the larger part of it
    except OSError:
        return {}  # sys.path may name archives and places that do not exist
    found: dict[str, str] = {}
    for name in names:
        if not name.endswith(_SUFFIX):
            continue
        library, _, version = name[: -len(_SUFFIX)].partition("-")
        if library.lower() in LIBRARIES:
            found[library.lower()] = "" if library.lower() in found else version
    return found


def _asked_the_slow_way(library: str) -> str:
    from importlib.metadata import version

    return version(library)
