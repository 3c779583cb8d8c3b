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
_DIGITS = r"[0-9a-f]{2,64}"
_WITH_VALUE = r"--[a-z-]+="
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
    completer = kind(program, {"obj": session}, "dis", VARIABLE)
    try:
        words, incomplete = completer.get_completion_args()
        # bash hands over `--option=value` as three words.
        if incomplete == "=" or words[-1:] == ["="]:
            words, incomplete = [word for word in words if word != "="], incomplete.strip("=")
        offered = completer.get_completions(words, incomplete)
        # The other shells replace all of it.
        begun = incomplete.partition("=")[0] + "=" if re.match(_WITH_VALUE, incomplete) else ""
        for item in offered if begun else ():
            item.value = f"{begun}{item.value}" if item.type == "plain" else item.value
        return "\n".join(map(completer.format_completion, offered))
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

    if "#" in incomplete:
        return manifests(ctx, param, incomplete)
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


def manifests(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem[str]]":
    """Offer files, and after a `#` the targets of a manifest."""
    from click.shell_completion import CompletionItem

    config, mark, begun = incomplete.rpartition("#")
    if not mark:
        return files(ctx, param, incomplete)
    from dis_derivations.graph.compilation import TARGETS

    return [CompletionItem(f"{config}#{name}") for name in TARGETS if name.startswith(begun)]


def contents(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem[str]]":
    """Offer the files of the object that the REF before names."""
    del param
    from click.shell_completion import CompletionItem

    from dis_command.session import Session
    from dis_derivations.runs.contents import Contents
    from dis_derivations.runs.reference import resolve
    from dis_store.errors import DisError

    session, ref = ctx.find_object(Session) or Session(), ctx.params.get("ref")
    place = _store(ctx)
    if place is None or not (place / "format.json").is_file():  # none is made for a completion
        return []
    try:
        with session.open_store(reading=True) as store:
            found = Contents(store, resolve(store, str(ref))).listing("", recursive=True)
    except DisError:
        return []
    return [CompletionItem(each.path) for each in found if each.path.startswith(incomplete)]


def keys(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem[str]]":
    """Offer the names of the user's keys."""
    del param
    from click.shell_completion import CompletionItem

    from dis_command.session import Session
    from dis_command.trust import key_ring
    from dis_store.errors import DisError

    try:
        names = key_ring(ctx.find_object(Session) or Session()).names()
    except DisError:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def servers(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem[str]]":
    """Offer the names of servers that were started."""
    del param
    from click.shell_completion import CompletionItem

    from dis_command.config_places import user_directory
    from dis_command.session import Session
    from dis_command.settings import STATE_DIRECTORY
    from dis_store.errors import DisError

    session = ctx.find_object(Session) or Session()
    try:
        place = user_directory(session.environment, *STATE_DIRECTORY) / "servers"
        # A server that was stopped leaves its log.
        names = sorted(each.parent.name for each in place.glob("*/record.json"))
    except (DisError, OSError):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _digests(store: Path | None, incomplete: str) -> "Iterator[CompletionItem[str]]":
    from click.shell_completion import CompletionItem

    if not re.fullmatch(_DIGITS, incomplete):
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
    return entry.name.endswith(_ROOT_SUFFIX) or re.fullmatch(_DIGITS, entry.name) is not None


def instruction(environment: Mapping[str, str]) -> str | None:
    """Return what a shell asks for; None in a call by a person."""
    return environment.get(VARIABLE)
