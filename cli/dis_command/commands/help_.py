"""`dis help`: the help of a command or a topic."""

import click

from dis_command.command import command, json_option, pass_session
from dis_command.session import Session

_EXIT_CODES, _ERRORS = "exit-codes", "errors"
# How alike a word must be to a topic, from 0 to 1, to have been meant.
_CLOSENESS = 0.75


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del param
    program = ctx.find_root().command
    names = program.list_commands(ctx) if isinstance(program, click.Group) else []
    codes: list[str] = []
    if incomplete.startswith("E"):
        from dis_command.error_codes import error_kinds

        codes = [kind.code for kind in error_kinds()]
    return [name for name in (_EXIT_CODES, _ERRORS, *names, *codes) if name.startswith(incomplete)]


@command(
    "help",
    examples=(
        "dis help realize",
        "dis help exit-codes",
        "dis help E0203",
        "dis help realize --man | man -l -",
    ),
)
@click.argument("words", nargs=-1, metavar="[COMMAND|TOPIC|CODE]", shell_complete=_complete)
@click.option("--man", is_flag=True, help="Print the manual page of a command, as roff.")
@json_option
@pass_session
def help_(session: Session, words: tuple[str, ...], man: bool) -> None:
    """Print the help of a command or a topic.

    The topics are exit-codes and errors. CODE is that of an error.
    """
    if words and not man and _print_topic(session, words):
        return
    context = _context_of(words)
    if man:
        from dis_command.manual import manual_page

        text = manual_page(context)
    else:
        text = context.get_help()
    session.print_result(
        lambda: {"schema_version": 1, "command": context.command_path, "text": text},
        lambda: text,
        paged=not man,
    )


def _print_topic(session: Session, words: tuple[str, ...]) -> bool:
    """Print a topic, or what a code means; return whether the words name one."""
    from dis_command.error_codes import is_code

    if words == (_EXIT_CODES,):
        _print_exit_codes(session)
    elif words == (_ERRORS,):
        _print_errors(session)
    elif len(words) == 1 and is_code(words[0]):
        _print_error(session, words[0])
    else:
        return False
    return True


def _context_of(words: tuple[str, ...]) -> click.Context:
    context = click.get_current_context().find_root()
    if len(words) == 1:
        _refuse_nearly_a_topic(words[0], context)
    for word in words:
        group = context.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"{context.command_path} has no commands")
        name, found, _ = group.resolve_command(context, [word])
        assert found is not None  # noqa: S101 - `resolve_command` refuses what is not there
        context = click.Context(found, info_name=name, parent=context)
    return context


def _refuse_nearly_a_topic(word: str, context: click.Context) -> None:
    from difflib import get_close_matches

    program = context.command
    if isinstance(program, click.Group) and word in program.list_commands(context):
        return
    if close := get_close_matches(word, (_EXIT_CODES, _ERRORS), n=1, cutoff=_CLOSENESS):
        raise click.UsageError(f"No topic has the name {word!r}. Did you mean {close[0]!r}?")


def _print_errors(session: Session) -> None:
    from dis_command.error_codes import error_kinds

    kinds = error_kinds()
    session.print_result(
        lambda: {"schema_version": 1, "errors": [vars(kind) for kind in kinds]},
        lambda: "\n".join(f"{kind.code}  {kind.meaning}" for kind in kinds),
        paged=True,
    )


def _print_error(session: Session, code: str) -> None:
    from difflib import get_close_matches

    from dis_command.error_codes import error_kinds
    from dis_command.exit_codes import EXIT_CODES

    kinds = {kind.code: kind for kind in error_kinds()}
    if code not in kinds:
        close = " or ".join(map(repr, get_close_matches(code, kinds, n=3)))
        raise click.UsageError(
            f"No error has the code {code}." + (f" Did you mean {close}?" if close else "")
        )
    kind = kinds[code]
    session.print_result(
        lambda: {"schema_version": 1, "error": vars(kind)},
        lambda: "\n".join(
            filter(
                None,
                (
                    f"{kind.code}: {kind.meaning}",
                    kind.advice,
                    f"Exit code {kind.exit_code}: {EXIT_CODES[kind.exit_code]}.",
                ),
            )
        ),
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
