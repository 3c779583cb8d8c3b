"""What a shell offers while a command line of dis is typed.

It must come before the user misses it: names are read from the directories of the store, without the index and
without any module of the store.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from dis_command.session import Session

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_DIS_COMPLETE"
_DIGITS = re.compile(r"[0-9a-f]{2,64}")
_ROOT_SUFFIX = ".json"
_SHARD = 2
_SHOWN_DIGITS = 12


def script(program: click.Command, shell: str) -> str:
    """Return what a shell evaluates to complete command lines."""
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - one of `SHELLS`
    # Not the method of bash's class, which asks the installed bash for its version.
    return ShellComplete.source(kind(program, {}, "dis", VARIABLE))


def complete(program: click.Command, session: "Session", instruction: str) -> str | None:
    """Return what to offer for the command line in the environment; None if that is not what is asked for.

    Args:
        program: The command `dis`.
        session: Gets the global options of the command line.
        instruction: The value of `VARIABLE`, as the scripts set it: `bash_complete` …
    """
    from click.shell_completion import get_completion_class

    shell, _, action = instruction.partition("_")
    kind = get_completion_class(shell) if action == "complete" else None
    if kind is None:
        return None
    try:
        return kind(program, {"obj": session}, "dis", VARIABLE).complete()
    except (click.ClickException, KeyError, ValueError):
        return ""  # a command line that makes no sense has no continuation


def files(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem[str]]":
    """Offer files."""
    del ctx, param
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def directories(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem[str]]":
    """Offer directories."""
    del ctx, param
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


def references(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem[str]]":
    """Offer the names of roots, digests of objects, and files."""
    from click.shell_completion import CompletionItem

    found = [*root_names(ctx, param, incomplete), *_digests(_store(ctx), incomplete)]
    # Files come first: bash begins its list anew there.
    return [CompletionItem(incomplete, type="file"), *found]


def root_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem[str]]":
    """Offer the names of roots."""
    del param
    from click.shell_completion import CompletionItem

    names = (name.removesuffix(_ROOT_SUFFIX) for name in _names(_store(ctx), "roots"))
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def _digests(store: Path | None, incomplete: str) -> "Iterator[CompletionItem[str]]":
    from click.shell_completion import CompletionItem

    if not _DIGITS.fullmatch(incomplete):
        return
    for name in sorted(_names(store, "objects", incomplete[:_SHARD])):
        if name.startswith(incomplete):
            yield CompletionItem(name[: max(_SHOWN_DIGITS, len(incomplete))])


def _store(ctx: click.Context) -> Path | None:
    """Return where the store is; None where it cannot be told."""
    from dis_command.session import Session
    from dis_store.errors import DisError

    session = ctx.find_object(Session) or Session()
    try:
        return session.store_path
    except DisError:
        return None


def _names(store: Path | None, *below: str) -> list[str]:
    if store is None:
        return []
    try:
        return [entry.name for entry in os.scandir(store.joinpath(*below)) if _is_shown(entry)]
    except OSError:
        return []


def _is_shown(entry: "os.DirEntry[str]") -> bool:
    return entry.name.endswith(_ROOT_SUFFIX) or _DIGITS.fullmatch(entry.name) is not None


def instruction(environment: Mapping[str, str]) -> str | None:
    """Return what a shell asks for; None in a call by a person."""
    return environment.get(VARIABLE)
