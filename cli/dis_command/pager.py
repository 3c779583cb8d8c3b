"""Long output for people, through a pager where stdout is a terminal."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from dis_command.settings import DEFAULT, Found, Settings

DEFAULT_PAGER = "less -FRX"
# What needs no second program: the text is printed.
_OFF = {"", "cat"}


def pager_setting(environment: Mapping[str, str], settings: Settings) -> Found:
    """Return the pager and where it comes from: `DIS_PAGER`, `PAGER`, a file of settings, or the default.

    Raises:
        InvalidSettingError: A file of settings is invalid.
    """
    for variable in ("DIS_PAGER", "PAGER"):
        if variable in environment:
            return Found(environment[variable].strip(), variable)
    return settings.configured_pager() or Found(DEFAULT_PAGER, DEFAULT)


def pager_command(environment: Mapping[str, str], settings: Settings) -> list[str]:
    """Return the pager's command line; an empty one where there is to be none, or it is not installed."""
    import shlex
    import shutil

    text = pager_setting(environment, settings).value
    if text in _OFF or environment.get("TERM") == "dumb":
        return []
    try:
        command = shlex.split(text)
    except ValueError:  # an open quote
        return []
    return command if shutil.which(command[0]) else []


def show(text: str, command: Sequence[str]) -> None:
    """Show a text in a pager and wait until it is left; one that does not start is done without.

    Leaving it before it has read everything is no failure.
    """
    import subprocess

    sys.stdout.flush()
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE)  # noqa: S603 - the user's own pager
    except OSError:
        print(text)
        return
    assert process.stdin is not None  # noqa: S101 - asked for above
    with _interrupts_left_to_the_pager():
        try:
            process.stdin.write(f"{text}\n".encode(sys.stdout.encoding, "backslashreplace"))
            process.stdin.close()
        except BrokenPipeError:
            pass
        process.wait()


@contextmanager
def _interrupts_left_to_the_pager() -> Iterator[None]:
    """Let Ctrl-C mean to the pager what it means there, and nothing here."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def is_terminal() -> bool:
    """Tell whether stdout is a terminal, the real one and not what a caller put in its place."""
    try:
        return sys.stdout.isatty() and os.isatty(sys.stdout.fileno())
    except (OSError, ValueError):
        return False
