"""The checks of `dis doctor` that are about this machine: Python, libraries, engines, devices, clock, PATH."""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dis_store.errors import DisError

Status = Literal["PASS", "INFO", "WARN", "FAIL"]

_MINIMUM_PYTHON = (3, 11)
# SQLite before this loses committed rows when a write-ahead log is reset under load.
_MINIMUM_SQLITE = (3, 51, 3)
# dis is younger than this, so a clock that says less is wrong.
_EARLIEST_NOW = 1_790_000_000
_ENGINES = ("reference", "transformers", "vllm", "mock", "openai_compatible")
_PATH_MARK = b"dis_command"


@dataclass(frozen=True)
class Check:
    """One line of `dis doctor`.

    Attributes:
        name: What was looked at.
        detail: What was found.
        fix: What to do about it, as a command where there is one.
    """

    status: Status
    name: str
    detail: str
    fix: str | None = None


def machine_checks(environment: Mapping[str, str]) -> Iterator[Check]:
    """Yield what can be told without a store."""
    yield _python()
    yield _sqlite()
    yield from _libraries()
    yield _blas()
    yield from _engines()
    yield _offline_builds(environment)
    yield _gpu()
    yield _clock()
    yield _on_path(environment)


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _MINIMUM_PYTHON:
        return Check("FAIL", "python", version, "install Python 3.11 or newer")
    return Check("PASS", "python", f"{version} at {sys.executable}")


def _sqlite() -> Check:
    try:
        import apsw
    except ImportError as error:
        return Check("FAIL", "sqlite", f"apsw cannot be loaded: {error}", _reinstall("apsw"))
    version = apsw.sqlite_lib_version()
    if tuple(int(part) for part in version.split(".")) < _MINIMUM_SQLITE:
        return Check(
            "FAIL",
            "sqlite",
            f"{version} can lose rows under load",
            "python -m pip install --upgrade apsw",
        )
    return Check("PASS", "sqlite", version)


def _libraries() -> Iterator[Check]:
    """Yield one line a library whose version can change a bit of a result, or which does the hashing."""
    from importlib import import_module
    from importlib.metadata import version

    for name in ("tokenizers", "jinja2", "numpy", "blake3"):
        try:
            import_module(name)
            yield Check("PASS", name, version(name))
        except Exception as error:  # noqa: BLE001 - a broken extension module raises whatever it likes
            yield Check("FAIL", name, f"cannot be loaded: {error}", _reinstall(name))


def _blas() -> Check:
    """Say what multiplies matrices: it makes the reference engine fast or slow, and changes none of its bits."""
    try:
        import numpy as np

        found = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return Check("PASS", "blas", f"{found['name']} {found['version']}")
    except Exception as error:  # noqa: BLE001 - numpy promises no shape of its configuration
        return Check("INFO", "blas", f"not known: {error}")


def _engines() -> Iterator[Check]:
    from dis_derivations.engines.registry import engine_kind

    for name in _ENGINES:
        try:
            kind = engine_kind(name)
            known = f"numerics version {kind.numerics}, platform {kind.platform}"
            if kind.has_process:
                found = f"in the environment of the Python that --{name}-python names, {known}"
                yield Check("INFO", f"engine {name}", found)
            elif kind.platform == "server":
                found = f"asked over the network, numerics version {kind.numerics}"
                yield Check("INFO", f"engine {name}", found)
            else:
                yield Check("PASS", f"engine {name}", f"here, {known}")
        except DisError as error:
            yield Check("INFO", f"engine {name}", f"not here: {error.what}")


def _offline_builds(environment: Mapping[str, str]) -> Check:
    """Try what manifests ask for that forbid the network to their builds."""
    from dis_derivations.confinement.confined_process import ConfinedProcess

    try:
        with ConfinedProcess.start(environment) as process:
            found = f"kept off the network by {process.enforced_by}; attempts are recorded by {process.recorded_by}"
    except DisError as error:
        tried = "; ".join((error.cause or "").splitlines()[1:])
        return Check(
            "WARN", "offline builds", f"cannot be kept off the network: {tried}", error.hint
        )
    return Check("PASS", "offline builds", found)


def _gpu() -> Check:
    try:
        driver = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError):
        return Check("INFO", "gpu", "no NVIDIA driver; the reference engine needs none")
    return Check("PASS", "gpu", driver.strip())


def _clock() -> Check:
    now = time.time()
    text = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(now))
    if now < _EARLIEST_NOW:
        return Check(
            "WARN",
            "clock",
            f"it says {text}, which is in the past",
            "set it: timedatectl set-ntp true",
        )
    return Check("PASS", "clock", text)


def _on_path(environment: Mapping[str, str]) -> Check:
    """Look for other programs called `dis`, of which there is at least one on PyPI."""
    directories = dict.fromkeys(environment.get("PATH", "").split(os.pathsep))
    candidates = [Path(directory or ".", "dis") for directory in directories]
    # os.access first: it answers where is_file would raise, as in a directory that may not be entered.
    found = [
        (candidate, _is_ours(candidate))
        for candidate in candidates
        if os.access(candidate, os.X_OK) and candidate.is_file()
    ]
    if not found:
        return Check("INFO", "PATH", "no command dis on PATH")
    others = [str(path) for path, ours in found if not ours]
    if others:
        first = "comes first" if not found[0][1] else "is there as well"
        return Check(
            "WARN",
            "PATH",
            f"another program {first}: {', '.join(others)}",
            "install dis isolated: pipx install dis-closures",
        )
    more = f", and {len(found) - 1} more of dis" if len(found) > 1 else ""
    return Check("PASS", "PATH", f"{found[0][0]}{more}")


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return _PATH_MARK in stream.read(4096)
    except OSError:
        return False


def _reinstall(name: str) -> str:
    return f"python -m pip install --force-reinstall {name}"
