"""`dis environment`: Python environments, those in the store and those on this machine."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dis_command import completion
from dis_command.command import command, json_option, pass_session
from dis_command.lazy_group import LazyCommand, LazyGroup
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.environments.document import EnvironmentDocument
    from dis_derivations.environments.installed import InstalledEnvironment

_MODULE = "dis_command.commands.environment"
_MOST_FAULTS = 20


@click.group(
    "environment",
    cls=LazyGroup,
    examples=(
        "dis environment show .venv/bin/python",
        "dis environment show 1a2b3c4d",
    ),
    lazy={
        "show": LazyCommand(_MODULE, "show", "Print what a Python environment is made of."),
    },
)
def environment() -> None:
    """Look at Python environments."""


@command(
    "show",
    examples=("dis environment show .venv/bin/python", "dis environment show 1a2b3c4d --json"),
)
@click.argument("what", metavar="REF|PYTHON", shell_complete=completion.references)
@json_option
@pass_session
def show(session: Session, what: str) -> int:
    """Print what a Python environment is made of.

    PYTHON is the path of an interpreter. Each file of its packages is held
    against their RECORD files. Where all are as they were installed, the
    environment has a digest; else it is printed why not, and the exit code is 1.

    REF is an environment in the store, or a closure that has one.
    """
    if Path(what).is_file() and os.access(what, os.X_OK):
        from dis_derivations.environments.installed import installed_environment

        found = installed_environment(Path(what))
        session.print_result(lambda: _installed_document(found), lambda: _installed_text(found))
        if found.digest is None:
            session.say(f"the environment of {what} cannot be pinned")
            return 1
        return 0
    from dis_derivations.environments.stored import stored_environment
    from dis_derivations.runs.reference import resolve

    with session.open_store(reading=True) as store:
        digest, document = stored_environment(store, resolve(store, what).object())
    session.print_result(
        lambda: {"schema_version": 1, "object": str(digest), **document.to_json()},
        lambda: _stored_text(str(digest), document),
    )
    return 0


def _installed_document(found: "InstalledEnvironment") -> dict[str, Any]:
    return {
        "schema_version": 1,
        "interpreter": {
            "path": str(found.interpreter.path),
            "sha256": found.interpreter.sha256,
            **found.interpreter.facts,
        },
        "digest": None if found.digest is None else str(found.digest),
        "packages": [
            {"name": each.name, "version": each.version, "files": each.files}
            for each in found.packages
        ],
        "faults": list(found.faults),
    }


def _installed_text(found: "InstalledEnvironment") -> str:
    from dis_command.table import aligned

    facts = found.interpreter.facts
    lines = [f"{facts['python']} on {facts['machine']}, {facts['libc'] or 'unknown libc'}"]
    lines += aligned(
        [(each.name, each.version, f"{each.files} files") for each in found.packages]
    ).splitlines()
    lines += list(found.faults[:_MOST_FAULTS])
    if len(found.faults) > _MOST_FAULTS:
        lines.append(f"and {len(found.faults) - _MOST_FAULTS} more (--json has all)")
    return "\n".join([*lines, *([f"digest {found.digest}"] if found.digest else [])])


def _stored_text(digest: str, document: "EnvironmentDocument") -> str:
    from dis_command.table import aligned

    rows = [(each.name, each.version, str(each.sha256)) for each in document.packages]
    lines = [f"{digest} for Python {document.python}", *aligned(rows).splitlines()]
    lines += [f"left without effect: {line}" for line in document.ignored]
    return "\n".join(lines)
