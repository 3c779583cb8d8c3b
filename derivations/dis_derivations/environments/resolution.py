"""Resolving the packages of a manifest, and all that they need, to wheels: by the resolver of the user's pip."""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from dis_derivations.environments.interpreter import Interpreter
from dis_derivations.environments.pip_report import ResolvedWheel, needed_wheels, parse_report
from dis_derivations.environments.request import ALL_PACKAGES, PackageRequest
from dis_derivations.sources.pip_download import (
    METADATA_ALONE,
    VARIABLES,
    Requirement,
    run_pip,
)
from dis_store import strict_json


def resolve_packages(
    request: PackageRequest,
    interpreter: Interpreter,
    kept: Mapping[str, str],
    directory: Path,
    check_interrupted: Callable[[], None],
) -> list[ResolvedWheel]:
    """Return the wheels that an interpreter needs for a request, sorted by name. None of them is installed or run.

    pip reads only the metadata of wheels where the index offers them by themselves, or parts of files; else it fetches
    the wheels.

    Args:
        request: What is asked for.
        interpreter: Whose tags and markers count.
        kept: Versions that are to stay, by normalised name.
        directory: Where pip works; empty before, and of this call alone.
        check_interrupted: Called all the while; when it raises, pip is ended.

    Raises:
        BuildError: pip found no wheels that go together, and why.
    """
    wanted, constraints = directory / "requirements.txt", directory / "constraints.txt"
    report = directory / "report.json"
    wanted.write_text(_lines(str(each.requirement) for each in request.packages), encoding="utf-8")
    constraints.write_text(
        _lines(str(Requirement(name, version)) for name, version in sorted(kept.items())),
        encoding="utf-8",
    )
    # Before the command, as pip wants it: it starts itself again in that Python.
    python = [] if str(interpreter.path) == sys.executable else ["--python", str(interpreter.path)]
    run_pip(
        [
            *python,
            "install",
            *METADATA_ALONE,
            "--only-binary",
            ":all:",
            "--report",
            str(report),
            "--requirement",
            str(wanted),
            "--constraint",
            str(constraints),
        ],
        directory,
        check_interrupted,
        failure=f"the packages of the manifest cannot be resolved for Python {interpreter.version}",
        hint=_hint(kept),
        variables=VARIABLES,
    )
    found = parse_report(strict_json.decode(report.read_bytes(), name="pip's report"))
    return needed_wheels(
        found,
        [each.name for each in request.packages],
        request.exclude,
        interpreter.markers,
    )


def _lines(texts: Iterable[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def _hint(kept: Mapping[str, str]) -> str:
    own = "pip goes by your own settings (pip config list), and takes wheels alone"
    if not kept:
        return own
    return f"let packages move that are locked: dis lock CONFIG --update {ALL_PACKAGES}; {own}"
