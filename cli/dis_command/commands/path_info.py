"""`dis path-info`: where objects are and what they need."""

from typing import TYPE_CHECKING, Any

import click

from dis_command.command import command, json_option, pass_session, ref_argument
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_store import Store
    from dis_store.digest import Digest


@command(
    "path-info",
    examples=("dis path-info first", "dis path-info -r first", "dis path-info --json 1a2b3c4d"),
)
@ref_argument("refs", "REF...", nargs=-1, required=True)
@click.option(
    "-r", "--recursive", is_flag=True, help="Print what they refer to as well, references first."
)
@click.option(
    "-s", "--size", is_flag=True, help="Print the size of each object and of its closure."
)
@json_option
@pass_session
def path_info(session: Session, refs: tuple[str, ...], recursive: bool, size: bool) -> None:
    """Print where objects are and what they need."""
    from dis_derivations.runs.reference import resolve

    with session.open_store(reading=True) as store:
        digests = [resolve(store, ref).object() for ref in refs]
        if recursive:
            digests = store.closure(digests)
        session.print_result(
            lambda: [_document(store, digest) for digest in digests],
            lambda: _text(store, digests, size=size),
        )


def _document(store: "Store", digest: "Digest") -> dict[str, Any]:
    references = sorted({str(entry.object) for entry in store.tree(digest).references})
    return {
        "digest": str(digest),
        "path": str(store.object_path(digest)),
        "size": store.object_size(digest),
        "closure_size": store.closure_size(digest),
        "references": references,
        "weights": store.tensor_set(digest),
        "roots": sorted(
            name for name, root in store.survey_roots().good.items() if root.object == digest
        ),
    }


def _text(store: "Store", digests: list["Digest"], *, size: bool) -> str:
    from dis_command.table import aligned
    from dis_command.terminal import size_text

    if not size:
        return "\n".join(str(store.object_path(digest)) for digest in digests)
    return aligned(
        [
            (
                str(store.object_path(digest)),
                size_text(store.object_size(digest)),
                size_text(store.closure_size(digest)),
            )
            for digest in digests
        ]
    )
