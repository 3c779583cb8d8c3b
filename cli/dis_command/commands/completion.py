"""`dis completion`: what completes command lines in a shell."""

import click

from dis_command.command import command, json_option, pass_session
from dis_command.completion import SHELLS, script
from dis_command.session import Session


@command(
    "completion",
    examples=(
        "dis completion bash > ~/.local/share/bash-completion/completions/dis",
        'dis completion zsh > "${fpath[1]}/_dis"',
        "dis completion fish > ~/.config/fish/completions/dis.fish",
    ),
)
@click.argument("shell", type=click.Choice(SHELLS))
@json_option
@pass_session
def completion(session: Session, shell: str) -> None:
    """Print what completes command lines in a shell.

    Commands and options are completed, and for a REF the names of roots,
    digests from their second digit on, and files; further the targets of a
    manifest, the files of an object, keys, and codes of errors.
    """
    program = click.get_current_context().find_root().command
    text = script(program, shell)
    session.print_result(
        lambda: {"schema_version": 1, "shell": shell, "script": text}, lambda: text.strip("\n")
    )
