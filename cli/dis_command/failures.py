"""What every exception means to the user: errors of ours, of the command line, of the system, and faults of dis."""

import errno
import re
import sys
from pathlib import Path

import click

from dis_command.errors import UnwritableOutputError, WrongUsageError
from dis_command.session import Session
from dis_store.errors import DisError, InvalidInputError, UnfitEnvironmentError

# What the system refuses whatever dis does.
_ENVIRONMENT = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EIO,
}  # fmt: skip
_QUOTED = re.compile(r"'([^']*)' is not one of ")


def as_dis_error(error: Exception, argv: list[str], session: Session) -> DisError:
    """Return the error to show for an exception; a fault of dis leaves its traceback in a file."""
    if isinstance(error, DisError):
        return error
    if isinstance(error, click.ClickException):
        return _usage_error(error)
    if isinstance(error, click.Abort):
        return InvalidInputError("nothing was answered")
    if isinstance(error, OSError) and (refused := _refused_by_system(error)) is not None:
        return refused
    from dis_command.error_report import unexpected

    return unexpected(error, argv, session.environment)


def _refused_by_system(error: OSError) -> DisError | None:
    if _output_refuses(error):
        return UnwritableOutputError(
            "standard output cannot be written",
            cause=error.strerror,
            hint="make room where it goes, or send it elsewhere",
        )
    if isinstance(error, FileNotFoundError) and _is_nowhere():
        return UnfitEnvironmentError(
            "the working directory is gone",
            cause="something removed it while it was in use",
            hint="go to a directory that exists: cd",
        )
    if error.errno in _ENVIRONMENT:
        thing = f"{error.filename}: " if error.filename is not None else ""
        return UnfitEnvironmentError(
            f"{thing}{error.strerror}", hint="see what is wrong with this machine: dis doctor"
        )
    return None


def _output_refuses(error: OSError) -> bool:
    """Tell whether standard output was the cause."""
    try:
        # What it did not take is in its buffer, and is refused again.
        sys.stdout.flush()
    except OSError:
        return True
    # Without a buffer: of what the command itself writes to, nothing else has no name.
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    module = "" if place is None else str(place.tb_frame.f_globals.get("__name__"))
    return error.filename is None and module.partition(".")[0] in {"dis_command", "click"}


def _is_nowhere() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _usage_error(error: click.ClickException) -> WrongUsageError:
    """Return a fault of the command line in the form of all errors."""
    what, _, suggested = _in_one_line(error.format_message()).partition(" Did you mean ")
    suggested = _suggestion(error) or suggested.strip()
    hint = "see the usage: dis --help"
    if suggested:
        hint = f"did you mean {suggested}"
    elif isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"see the usage: {error.ctx.command_path} --help"
    return WrongUsageError(_lowered(what.removesuffix(".")), hint=hint)


def _in_one_line(text: str) -> str:
    """Return a message of click, which puts what can be chosen on lines of their own, and suggestions in brackets."""
    text, _, _ = text.strip().partition(" (Did you mean one of: ")
    return text.replace(":\n\t", ": ").replace(",\n\t", ", ")


def _suggestion(error: click.ClickException) -> str:
    """Return the options or values that may have been meant; empty where there are none, or the message says it."""
    close: list[str] = []
    if isinstance(error, click.NoSuchOption):
        close = list(error.possibilities or ())
    elif isinstance(error, click.BadParameter) and error.param is not None:
        kind, given = error.param.type, _QUOTED.match(error.message)
        if isinstance(kind, click.Choice) and given is not None:
            from difflib import get_close_matches

            close = get_close_matches(given[1], list(kind.choices), n=1)
    return f"{' or '.join(map(repr, close))}?" if close else ""


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]
