"""`dis remote`: look at what registries hold."""

from typing import TYPE_CHECKING, Any

import click

from dis_command.command import command, json_option, pass_session
from dis_command.lazy_group import LazyCommand, LazyGroup
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.distribution.remote_closure import RemoteClosure

_COMMANDS = {
    "ls": LazyCommand(
        "dis_command.commands.remote",
        "ls",
        "List the closures of a repository, or the parts of one.",
    )
}


@click.group(
    "remote",
    cls=LazyGroup,
    lazy=_COMMANDS,
    examples=("dis remote ls oci://registry.example.com/runs",),
)
def remote() -> None:
    """Look at what registries hold."""


@command(
    "ls",
    examples=(
        "dis remote ls oci://registry.example.com/runs",
        "dis remote ls oci://registry.example.com/runs:first",
    ),
)
@click.argument("place", metavar="oci://HOST/REPOSITORY[:TAG]")
@json_option
@pass_session
def ls(session: Session, place: str) -> None:
    """List the closures of a repository, or the parts of one."""
    from dis_command.transfers import interruptible
    from dis_derivations.distribution.layout import closure_tags
    from dis_derivations.distribution.remote_closure import fetch_closure
    from dis_derivations.registry.client import RegistryClient
    from dis_derivations.registry.reference import parse_reference

    reference = parse_reference(place)
    with interruptible(), RegistryClient(session.environment) as client:
        if reference.tag is not None or reference.digest is not None:
            closure = fetch_closure(client, reference)
            session.print_result(
                lambda: _parts_document(closure), lambda: _parts_text(closure), paged=True
            )
            return
        tags = closure_tags(client.tags(reference))
    session.print_result(
        lambda: {
            "schema_version": 1,
            "reference": str(reference),
            "closures": [{"tag": tag, "reference": str(reference.with_tag(tag))} for tag in tags],
        },
        lambda: "\n".join(str(reference.with_tag(tag)) for tag in tags),
        paged=True,
    )


def _parts_document(closure: "RemoteClosure") -> dict[str, Any]:
    return {
        "schema_version": 1,
        "reference": str(closure.reference),
        "digest": str(closure.digest),
        "object": str(closure.root),
        "parts": [
            {
                "name": each.name,
                "kind": each.kind,
                "object": None if each.object is None else str(each.object),
                "manifest": str(each.descriptor.digest),
            }
            for each in closure.children
        ],
    }


def _parts_text(closure: "RemoteClosure") -> str:
    from dis_command.table import aligned

    rows = [(each.name, each.kind, (each.object or "-")[:12]) for each in closure.children]
    return aligned([("part", "kind", "object"), *rows])
