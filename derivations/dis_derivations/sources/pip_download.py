"""Having the user's own pip find packages, and fetch what only it can: their indexes, proxies and credentials.

Nothing of a package is run: only wheels are taken, and pip does no more than write them to a directory.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from dis_derivations.transport.proxy_secrets import without_proxy_secrets
from dis_store.errors import BuildError

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_VERSION = re.compile(r"[0-9](?:[A-Za-z0-9.!+_-]{0,126}[A-Za-z0-9])?")
# To the last `@`: a password may have one.
_USER_OF_ADDRESS = re.compile(r"(?<=://)[^/\s]+@")
_QUERY_OF_ADDRESS = re.compile(r"(?<=://)([^\s?]+)\?[^\s)\]'\"]+")
_SECONDS_BETWEEN_LOOKS = 0.05
_SECONDS_TO_END = 5
_TAIL_BYTES = 1 << 14
_MOST_LINES = 12

# Wheels for every platform alone: what a lock pins must be the same wherever it is fetched.
ANY_PLATFORM = ("--platform", "any", "--implementation", "py", "--abi", "none")
ONE_WHEEL = (
    "--no-deps",
    "--only-binary",
    ":all:",
    # It is said of running the package's code, and that is never run.
    "--ignore-requires-python",
)
# Nothing is installed, and of wheels only their metadata are read: as files of their own, or as parts of the wheels.
METADATA_ALONE = ("--dry-run", "--ignore-installed", "--quiet", "--use-feature=fast-deps")
# What the user's settings may ask of installations is of no account for that. Digests are compared by dis.
VARIABLES = {"PIP_REQUIRE_VIRTUALENV": "0", "PIP_USER": "0", "PIP_REQUIRE_HASHES": "0"}
# As variables, because options have their place behind the command.
_SETTINGS = {
    "PIP_NO_INPUT": "1",
    "PIP_NO_COLOR": "1",
    "PIP_PROGRESS_BAR": "off",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}


@dataclass(frozen=True)
class Requirement:
    """A package, and which version of it; None for the newest.

    Raises:
        ValueError: The name or the version is none.
    """

    name: str
    version: str | None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is not the name of a package")
        if self.version is not None and not _VERSION.fullmatch(self.version):
            raise ValueError(f"{self.version!r} is not one version of a package")

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name}=={self.version}"


def has_pip() -> bool:
    """Tell whether the Python that runs dis has pip."""
    return find_spec("pip") is not None


def download_wheel(
    requirement: Requirement,
    options: Sequence[str],
    directory: Path,
    check_interrupted: Callable[[], None],
) -> Path:
    """Return the wheel that pip fetched, in a directory that is empty before and belongs to this call.

    Args:
        requirement: What to fetch.
        options: Which of its wheels: platforms, hashes, as lines of a file of requirements and options of pip.
        directory: Where pip works, its temporary files included.
        check_interrupted: Called all the while; when it raises, pip is ended.

    Raises:
        BuildError: pip could not, and why.
    """
    wheels, wanted = directory / "wheels", directory / "requirements.txt"
    wheels.mkdir()
    hashes = [option for option in options if option.startswith("--hash=")]
    wanted.write_text(" ".join((str(requirement), *hashes)) + "\n", encoding="utf-8")
    others = [option for option in options if option not in hashes]
    run_pip(
        ["download", *ONE_WHEEL, *others, "--dest", str(wheels), "-r", str(wanted)],
        directory,
        check_interrupted,
        failure=f"pip could not fetch the wheel of {requirement}",
        hint="pip goes by your own settings: pip config list",
    )
    return _only_wheel(requirement, wheels)


def run_pip(
    arguments: Sequence[str],
    directory: Path,
    check_interrupted: Callable[[], None],
    *,
    failure: str,
    hint: str,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Run the user's pip to its end.

    Args:
        arguments: Its command with options; they hold no secret, since every user of the machine can read them.
        directory: Where it works, its temporary files included.
        check_interrupted: Called all the while; when it raises, pip is ended.
        failure: What has happened when it fails.
        hint: What to do then.
        variables: What of its environment is not as in this process.

    Raises:
        BuildError: It failed, and why.
    """
    temporary, log = directory / "temporary", directory / "log"
    temporary.mkdir()
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - the Python that runs this, and arguments that were checked
            [sys.executable, "-m", "pip", *arguments],
            # Python takes modules from here before others, and a file of the user's called pip.py is not pip.
            cwd=directory,
            env={**os.environ, **_SETTINGS, "TMPDIR": str(temporary), **variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    code = _wait(process, check_interrupted)
    if code != 0:
        raise BuildError(failure, cause=_reason(log), hint=hint)


def _wait(process: "subprocess.Popen[bytes]", check_interrupted: Callable[[], None]) -> int:
    """Wait for pip; end it, and what it has started, when the user asks to stop."""
    try:
        while (code := process.poll()) is None:
            check_interrupted()
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    finally:
        if process.poll() is None:
            _end(process, signal.SIGTERM)
            try:
                process.wait(_SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                _end(process, signal.SIGKILL)
                process.wait()
    return code


def _end(process: "subprocess.Popen[bytes]", how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, how)


def _reason(log: Path) -> str:
    """Return what pip said last, without credentials: its errors, or else its last lines."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines()]
    said = [line for line in lines if line]
    errors = [line for line in said if line.startswith("ERROR:")] or said
    return (
        "\n".join(without_credentials(line) for line in errors[-_MOST_LINES:])
        or "it does not say why"
    )


def without_credentials(text: str) -> str:
    """Return a text in which addresses have neither a user nor a query, and which quotes no password of a proxy."""
    without = without_proxy_secrets(text)
    return _QUERY_OF_ADDRESS.sub(r"\1?****", _USER_OF_ADDRESS.sub("****@", without))


def _only_wheel(requirement: Requirement, directory: Path) -> Path:
    found = sorted(directory.iterdir())
    if len(found) != 1 or found[0].is_symlink() or not found[0].is_file():
        raise BuildError(
            f"pip fetched no single wheel for {requirement}",
            cause=f"it wrote {', '.join(path.name for path in found[:5]) or 'nothing'}",
            hint="pip goes by your own settings: pip config list",
        )
    return found[0]
