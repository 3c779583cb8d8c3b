"""`dis cat`: a file of an object or a run."""

import sys
from typing import TYPE_CHECKING, Any

import click

from dis_command import completion
from dis_command.command import command, json_option, pass_session, ref_argument
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.runs.contents import Contents, Shown


@command(
    "cat",
    examples=("dis cat first bundle.json", "dis cat first tokens.json | jq .sequences"),
)
@ref_argument()
@click.argument("path", metavar="PATH", shell_complete=completion.contents)
@json_option
@pass_session
def cat(session: Session, ref: str, path: str) -> None:
    """Print a file of an object or a run.

    The bytes go to stdout as they are, and are compared with their digest on
    the way; the exit code is 4 when they are damaged.
    """
    from dis_derivations.runs.contents import Contents
    from dis_derivations.runs.reference import resolve

    with session.open_store(reading=True) as store:
        contents = Contents(store, resolve(store, ref))
        file = contents.file(path)
        if session.as_json:
            session.print_document(_document(contents, file))
            return
        sys.stdout.flush()
        for chunk in contents.chunks(file):
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


def _document(contents: "Contents", file: "Shown") -> dict[str, Any]:
    from base64 import b64encode

    return {
        "schema_version": 1,
        "path": file.path,
        "size": file.size,
        "base64": b64encode(b"".join(contents.chunks(file))).decode(),
    }
