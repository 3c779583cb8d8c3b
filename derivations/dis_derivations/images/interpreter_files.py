"""What of this machine a Python interpreter is: its program, its standard library, the shared libraries of both."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dis_derivations.images.elf_file import is_elf
from dis_derivations.images.shared_libraries import NeededLibraries, needed_libraries
from dis_store.errors import UnfitEnvironmentError

_SECONDS = 60
_SCRIPT = """
import json, os, sys, sysconfig
print(json.dumps({
    "program": os.path.realpath(sys.executable),
    "library": os.path.realpath(sysconfig.get_path("stdlib")),
    "version": list(sys.version_info[:3]),
    "implementation": sys.implementation.name,
}))
"""
# Packages of their own, tests, and what needs a screen or a compiler.
_LEFT_OUT = frozenset(
    {"__pycache__", "site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter"}
    | {"turtledemo", "ensurepip", "lib2to3", "pydoc_data"}
)
_LEFT_OUT_PREFIXES = ("config-", "_tkinter.", "_test", "_ctypes_test.", "xxlimited", "xxsubtype")
_MAX_FILES = 20_000


@dataclass(frozen=True)
class InterpreterFiles:
    """An interpreter as files of this machine.

    Attributes:
        program: The interpreter itself, links followed.
        version: `3.11.2`.
        series: `3.11`.
        library: The files of the standard library, by path below its directory.
        needed: The shared libraries of program and extension modules.
    """

    program: Path
    version: str
    series: str
    library: Mapping[str, Path]
    needed: NeededLibraries


def interpreter_files(interpreter: Path) -> InterpreterFiles:
    """Return the files of the interpreter behind a path, which may be that of a virtual environment.

    It is run once, without its packages, and asked where its standard library is.

    Raises:
        UnfitEnvironmentError: It does not run, is not CPython, or needs a library that is not there.
    """
    told = _ask(interpreter)
    program, top = Path(told["program"]), Path(told["library"])
    major, minor, micro = told["version"]
    if told["implementation"] != "cpython":
        raise UnfitEnvironmentError(
            f"no image can be made of {interpreter}", cause=f"it is {told['implementation']}"
        )
    library = {path.relative_to(top).as_posix(): path for path in _library(top)}
    modules = [path for name, path in library.items() if name.endswith(".so") and is_elf(path)]
    needed = needed_libraries([program, *modules])
    for name, wanting in needed.missing.items():
        if wanting == program:
            raise UnfitEnvironmentError(
                f"no image can be made of {interpreter}",
                cause=f"the library {name}, which it needs, is not found",
            )
    return InterpreterFiles(
        program, f"{major}.{minor}.{micro}", f"{major}.{minor}", library, needed
    )


def _ask(interpreter: Path) -> dict[str, Any]:
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter that the user named
            [str(interpreter), "-I", "-S", "-c", _SCRIPT],
            capture_output=True,
            check=True,
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
        )
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise UnfitEnvironmentError(
            f"{interpreter} is no Python interpreter that answers",
            cause=str(error)[:300],
            hint="name one with --python PATH",
        ) from error
    return found


def _library(top: Path) -> Iterator[Path]:
    """Yield the files of the standard library; links to files count as what they lead to."""
    waiting, count = [top], 0
    while waiting:
        directory = waiting.pop()
        for entry in sorted(directory.iterdir()):
            if entry.name in _LEFT_OUT or entry.name.startswith(_LEFT_OUT_PREFIXES):
                continue
            if entry.is_dir() and not entry.is_symlink():
                waiting.append(entry)
            elif entry.is_file() and not entry.name.endswith((".pyc", ".a")):
                count += 1
                if count > _MAX_FILES:
                    raise UnfitEnvironmentError(
                        f"no image can be made of the standard library in {top}",
                        cause=f"it has more than {_MAX_FILES} files",
                    )
                yield entry
