"""`dis ls`: the files of an object or a run."""

from typing import TYPE_CHECKING, Any

import click

from dis_command import completion
from dis_command.command import command, json_option, pass_session, ref_argument
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.runs.contents import Shown


@command("ls", examples=("dis ls first", "dis ls -l -r first", "dis ls 1a2b3c4d model"))
@ref_argument()
@click.argument(
    "path", required=False, default="", metavar="[PATH]", shell_complete=completion.contents
)
@click.option("-l", "--long", is_flag=True, help="Print sizes, and whose file it is.")
@click.option("-r", "--recursive", is_flag=True, help="Print all files below PATH.")
@json_option
@pass_session
def ls(session: Session, ref: str, path: str, long: bool, recursive: bool) -> None:
    """List the files of an object or a run.

    References are followed. A directory ends with a slash; its size is that of
    all files in it.
    """
    from dis_derivations.runs.contents import Contents
    from dis_derivations.runs.reference import resolve

    with session.open_store(reading=True) as store:
        found = Contents(store, resolve(store, ref)).listing(path, recursive=recursive)
    session.print_result(
        lambda: [_document(each) for each in found], lambda: _text(found, long=long)
    )


def _document(shown: "Shown") -> dict[str, Any]:
    return {
        "path": shown.path,
        "directory": shown.directory,
        "size": shown.size,
        "executable": shown.executable,
        "object": shown.owner,
        "blake3": shown.blake3,
    }


def _text(found: "list[Shown]", *, long: bool) -> str:
    from dis_command.table import aligned
    from dis_command.terminal import one_line

    names = [shown.path + ("/" if shown.directory else "") for shown in found]
    if not long:
        return "\n".join(map(one_line, names))
    return aligned(
        [
            (name, str(shown.size), shown.owner[:12] if shown.owner else "-")
            for name, shown in zip(names, found, strict=True)
        ]
    )
