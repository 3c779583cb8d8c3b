"""What an interpreter on this machine is: the version, the wheels it takes, the libc it runs on."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dis_store.errors import UnfitEnvironmentError

_SECONDS = 60
_SCRIPT = Path(__file__).with_name("probe_script.py")
_OLDEST = (3, 9)


@dataclass(frozen=True)
class Interpreter:
    """A Python on this machine, as it told about itself.

    Attributes:
        path: As it was named, made absolute; a link is not followed, as a virtual environment is known by it.
        version: Such as `3.11.9`.
        implementation: Such as `cpython`.
        libc: Such as `glibc 2.36`; empty where it does not tell.
        machine: Such as `x86_64`.
        tags: The tags of wheels that it takes, best first.
        markers: What environment markers of requirements are evaluated with.
        import_path: Where it looks for modules beside its standard library, in order.
        sha256: Of the program file, `sha256:…`.
    """

    path: Path
    version: str
    implementation: str
    libc: str
    machine: str
    tags: tuple[str, ...]
    markers: Mapping[str, str]
    import_path: tuple[Path, ...]
    sha256: str

    @property
    def facts(self) -> dict[str, str]:
        """What of it is a fact of the platform for builds that run on it."""
        return {
            "python": f"{self.implementation} {self.version}",
            "libc": self.libc,
            "machine": self.machine,
        }


def probe_interpreter(path: Path, *, fresh: bool = False) -> Interpreter:
    """Run an interpreter and return what it says.

    Args:
        path: The program, or its name on `PATH`.
        fresh: Whether it is asked although it was before and its file is the same: where it imports from can change.

    Raises:
        UnfitEnvironmentError: There is none, it does not answer, or it is older than 3.9.
    """
    found = shutil.which(str(path))
    if found is None:
        raise UnfitEnvironmentError(f"there is no Python at {path}", hint="name a program: PATH")
    place = os.path.abspath(found)  # noqa: PTH100 - `resolve` would leave a virtual environment
    status = Path(place).stat()
    probe = _probe.__wrapped__ if fresh else _probe
    return probe(place, (status.st_dev, status.st_ino, status.st_mtime_ns))


def find_interpreter(version: str) -> Interpreter:
    """Return a Python of a version that a manifest asks for: the one that runs dis, or `pythonX.Y` on `PATH`.

    Args:
        version: `3.11` takes any 3.11; `3.11.9` takes that one alone.

    Raises:
        UnfitEnvironmentError: There is none.
    """
    series = ".".join(version.split(".")[:2])
    seen: list[str] = []
    for name in (sys.executable, f"python{series}", "python3", "python"):
        found = shutil.which(name)
        if found is None:
            continue
        interpreter = probe_interpreter(Path(found))
        if fits_version(version, interpreter.version):
            return interpreter
        seen.append(f"{found} is {interpreter.version}")
    raise UnfitEnvironmentError(
        f"there is no Python {version} on this machine",
        cause="\n".join(dict.fromkeys(seen)) or "there is no Python on PATH",
        hint=f"put python{series} on PATH; or ask for another: --set software_stack.python.version=X.Y",
    )


def fits_version(wanted: str, version: str) -> bool:
    """Tell whether a version is the wanted one, or of the wanted series."""
    return version.split(".")[: len(wanted.split("."))] == wanted.split(".")


@lru_cache(maxsize=16)
def _probe(path: str, identity: tuple[int, int, int]) -> Interpreter:
    del identity  # asked again when the file is another one
    import packaging

    home = str(Path(packaging.__file__).parents[1])
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    try:
        answer = subprocess.run(  # noqa: S603 - a program that the user named
            # -I: neither the working directory nor PYTHONPATH nor the user's own packages. -B: nothing is written.
            [path, "-I", "-B", str(_SCRIPT), home],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
        said = json.loads(answer.stdout.splitlines()[-1])
        version = str(said["version"])
        if tuple(map(int, version.split(".")[:2])) < _OLDEST:
            raise UnfitEnvironmentError(f"{path} is Python {version}, and 3.9 is the oldest")
        return _interpreter(path, said)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode("utf-8", "replace").strip().splitlines()[-3:]
        raise _silent(path, "\n".join(lines) or f"it ended with {error.returncode}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _silent(path, str(error)) from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise _silent(path, "it did not answer as a Python does") from error


def _interpreter(path: str, said: Mapping[str, Any]) -> Interpreter:
    markers, own = dict(said["markers"]), set(said["standard_library"])
    with Path(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Interpreter(
        path=Path(path),
        version=str(said["version"]),
        implementation=str(said["implementation"]),
        libc=str(said["libc"]),
        machine=str(said["machine"]),
        tags=tuple(map(str, said["tags"])),
        markers={str(name): str(value) for name, value in markers.items()},
        import_path=tuple(Path(str(place)) for place in said["path"] if place not in own),
        sha256=f"sha256:{digest}",
    )


def _silent(path: str, cause: str) -> UnfitEnvironmentError:
    return UnfitEnvironmentError(f"{path} does not say what Python it is", cause=cause)
