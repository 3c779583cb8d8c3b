"""`dis help`: the help of a command or a topic."""

import click

from dis_command.command import command, json_option, pass_session
from dis_command.session import Session

_TOPIC = "exit-codes"


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del param
    program = ctx.find_root().command
    names = program.list_commands(ctx) if isinstance(program, click.Group) else []
    return [name for name in (_TOPIC, *names) if name.startswith(incomplete)]


@command("help", examples=("dis help", "dis help realize", "dis help exit-codes"))
@click.argument("words", nargs=-1, metavar="[COMMAND|exit-codes]", shell_complete=_complete)
@json_option
@pass_session
def help_(session: Session, words: tuple[str, ...]) -> None:
    """Print the help of a command or a topic."""
    if words == (_TOPIC,):
        _print_exit_codes(session)
        return
    context = click.get_current_context().find_root()
    for word in words:
        group = context.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"{context.command_path} has no commands")
        name, found, _ = group.resolve_command(context, [word])
        assert found is not None  # noqa: S101 - `resolve_command` refuses what is not there
        context = click.Context(found, info_name=name, parent=context)
    text = context.get_help()
    session.print_result(
        lambda: {"schema_version": 1, "command": context.command_path, "text": text},
        lambda: text,
        paged=True,
    )


def _print_exit_codes(session: Session) -> None:
    from dis_command.exit_codes import EXIT_CODES

    session.print_result(
        lambda: {
            "schema_version": 1,
            "exit_codes": [{"code": code, "meaning": text} for code, text in EXIT_CODES.items()],
        },
        lambda: "\n".join(f"{code:>3}  {text}" for code, text in EXIT_CODES.items()),
    )
