"""What is said of a run whose artifact digests are not verified: before it, after it, and wherever it is shown."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.lock.unverified_digests import UnverifiedDigests
    from dis_derivations.realisation.target import RealisedTarget

_Function = TypeVar("_Function", bound=Callable[..., Any])

_BEFORE = (
    "the digests of the lock are not verified (--no-verify-artifact-digests)\n"
    "inputs are taken as they are now, whatever the lock says of them; the lock is left as it is\n"
    "the run is recorded as such, and never grades conformant"
)


def unverified_option(function: _Function) -> _Function:
    """Add `--no-verify-artifact-digests`, as the parameter `unverified`."""
    return click.option(
        "--no-verify-artifact-digests",
        "unverified",
        is_flag=True,
        help="Take inputs that are not those of the lock; the run never grades conformant.",
    )(function)


def warn_before(session: Session) -> None:
    """Say what a run without verification is, before it is made."""
    session.warn(_BEFORE)


def warn_after(session: Session, realised: "RealisedTarget") -> None:
    """Say what such a run used in place of what the lock declares; nothing of any other run."""
    if realised.unverified is None:
        return
    kept = f"\nit is kept as {realised.roots[0]}" if realised.roots else ""
    session.warn(f"{unverified_text(realised.unverified)}{kept}")


def unverified_text(unverified: "UnverifiedDigests") -> str:
    """Return what was used in place of what the lock declares, in lines."""
    lines = [
        "this run was not held to the digests of its lock, and is no evidence about it",
        unverified.statement,
    ]
    for file in unverified.differing:
        lines += [
            f"  {file.name} {file.path}",
            f"    lock {file.declared}",
            f"    used {file.used}",
        ]
    return "\n".join(lines)
