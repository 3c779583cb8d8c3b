"""`dis root`: the names that keep objects."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from dis_command import completion
from dis_command.command import command, json_option, pass_session, ref_argument, yes_option
from dis_command.lazy_group import LazyCommand, LazyGroup
from dis_command.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dis_store import Kept, Root, Store

_MODULE = "dis_command.commands.root"


_force_option = click.option(
    "--force", is_flag=True, help="Also where a manifest wants it to be kept for some time yet."
)


@click.group(
    "root",
    cls=LazyGroup,
    examples=("dis root add golden first", "dis root list", "dis root remove golden"),
    lazy={
        "add": LazyCommand(_MODULE, "add", "Keep an object under a name."),
        "list": LazyCommand(_MODULE, "list_", "List the roots and what they keep."),
        "remove": LazyCommand(_MODULE, "remove", "Let go of what a name keeps."),
    },
)
def root() -> None:
    """Name objects, so that they are kept."""


@command("add", examples=("dis root add golden quickstart.1a2b3c4d", "dis root add model 1a2b3c4d"))
@click.argument("name")
@ref_argument()
@_force_option
@json_option
@pass_session
def add(session: Session, name: str, ref: str, force: bool) -> None:
    """Keep an object under a name.

    The object stays, with all it refers to; where REF is a root or a run, so
    does what it was built from. A name that is there already moves, but with
    --force only where it must keep what it keeps for some time yet. Set to what
    it keeps already, it keeps that as long as it had to, --force aside.
    """
    from dataclasses import replace

    from dis_derivations.runs.reference import resolve
    from dis_derivations.runs.roots import root_for

    now = datetime.now(UTC).isoformat(timespec="seconds")
    with session.open_store() as store:
        new = root_for(resolve(store, ref), created_at=now)
        known = None if force else store.survey_roots().good.get(name)
        if known is not None and known.object == new.object:
            new = replace(new, include=known.include or new.include)
        store.set_root(name, new, force=force)
        session.print_result(
            lambda: _document(store, name, new, store.kept_roots().get(name)),
            lambda: str(store.object_path(new.object)),
        )


@command("list", examples=("dis root list", "dis root list --json"))
@json_option
@pass_session
def list_(session: Session) -> None:
    """List the roots and what they keep."""
    with session.open_store(reading=True) as store:
        roots = sorted(store.survey_roots().good.items())
        kept = store.kept_roots()
        session.print_result(
            lambda: [_document(store, name, each, kept.get(name)) for name, each in roots],
            lambda: _text(roots, kept),
        )
        store.roots()  # after the good ones were shown, refuses damaged ones


@command("remove", examples=("dis root remove golden",))
@click.argument(
    "names",
    nargs=-1,
    required=True,
    metavar="NAME...",
    shell_complete=completion.root_names,
)
@_force_option
@yes_option
@json_option
@pass_session
def remove(session: Session, names: tuple[str, ...], force: bool, yes: bool) -> None:
    """Let go of what a name keeps.

    Nothing is deleted; the next dis gc frees what no other root keeps. On a
    terminal, it says how much that is and asks first. What the manifest of a
    run wants to be kept for some time yet goes with --force only.
    """
    from dis_command.confirmation import can_ask
    from dis_derivations.runs.roots import check_names, refuse_kept

    with session.open_store() as store:
        damaged = check_names(store, names)
        if not force:
            refuse_kept(store, names)
        if not yes and can_ask():
            _ask(store, names)
        for name in names:
            store.remove_root(name, force=force)
    session.print_result(lambda: {"schema_version": 1, "removed": list(names)}, lambda: "")
    for name in damaged:
        session.say(f"the record of {name} was damaged; what it kept is not known")
    session.say(f"removed {', '.join(names)}; dis gc frees what no other root keeps")


def _ask(store: "Store", names: tuple[str, ...]) -> None:
    from dis_command.confirmation import ask
    from dis_command.giving_up import loss_without

    loss = loss_without(store, names)
    ask("what these roots keep is not known" if loss is None else str(loss))


def _document(store: "Store", name: str, root: "Root", kept: "Kept | None") -> dict[str, Any]:
    return {
        "name": name,
        "object": str(root.object),
        "path": str(store.object_path(root.object)),
        "derivation": root.derivation,
        "key": root.key,
        "automatic": root.automatic,
        "label": root.label,
        "created_at": root.created_at,
        "kept_until": None if kept is None else kept.until.isoformat(timespec="seconds"),
        "include": list(root.include),
    }


def _text(roots: list[tuple[str, "Root"]], kept: "Mapping[str, Kept]") -> str:
    from dis_command.table import aligned

    if not roots:
        return ""
    rows = [
        (name, each.object[:12], "automatic" if each.automatic else "named", each.created_at)
        for name, each in roots
    ]
    head = ("NAME", "OBJECT", "KIND", "SINCE")
    if not kept:  # which is so wherever no manifest asks for it
        return aligned([head, *rows])
    until = [kept[name].date if name in kept else "-" for name, _ in roots]
    wide = [(*row, date) for row, date in zip(rows, until, strict=True)]
    return aligned([(*head, "KEPT UNTIL"), *wide])
