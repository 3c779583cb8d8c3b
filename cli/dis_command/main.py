"""The entry point of `dis`: runs a command line, and turns whatever happens into output and an exit code."""

import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from io import TextIOWrapper
from itertools import pairwise
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

from dis_command import completion, stopping
from dis_command.program import dis
from dis_command.session import Session
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_store.errors import DisError

INTERRUPTED, BROKEN_PIPE, TERMINATED = 130, 141, 143


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    _occupy_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, TextIOWrapper
        ):  # what the terminal's encoding does not have is written as an escape
            stream.reconfigure(errors="backslashreplace")
    signals = _StopSignals()
    code = run(sys.argv[1:])
    sys.exit(TERMINATED if signals.terminated and code == INTERRUPTED else code)


def _occupy_closed_streams() -> None:
    """Send closed standard streams to nowhere.

    Otherwise a file of the store would be opened under the number of stdout or stderr, and written over.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004 - stdin, stdout, stderr
        os.set_inheritable(number, True)
    os.close(number)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - for as long as the process


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code (docs/reference/exit-codes.md)."""
    session = Session(as_json="--json" in argv)
    if _asks_for_events(argv):
        session.progress = "json"  # also for what is wrong before the options are read
    try:
        with stopping.announced_by(partial(_announce_as_event, session)):
            code = _invoke(argv, session)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except KeyboardInterrupt as error:
        from dis_store.errors import InterruptedBuildError

        return _report(InterruptedBuildError("interrupted"), error, session)
    except Exception as error:  # noqa: BLE001 - the one place where everything ends up
        from dis_command.failures import as_dis_error

        return _report(as_dis_error(error, list(argv), session), error, session)
    return code


def _asks_for_events(argv: Sequence[str]) -> bool:
    return "--progress=json" in argv or ("--progress", "json") in pairwise(argv)


def _invoke(argv: Sequence[str], session: Session) -> int:
    if asked := completion.instruction(session.environment):
        offered = completion.complete(dis, session, asked)
        if offered is not None:
            print(offered)
            return 0
    try:
        with dis.make_context("dis", list(argv), obj=session) as context:
            result = dis.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as missing:
        sys.stderr.write(missing.format_message() + "\n")
        return missing.exit_code
    return result if isinstance(result, int) else 0


def _report(error: "DisError", origin: BaseException, session: Session) -> int:
    """Show an error on stderr, and return its exit code."""
    from dis_command import error_report

    try:
        traceback = error_report.traceback_text(origin) if session.debugging else None
        if _tells_events(session):
            sys.stderr.write(error_report.render_event(error, traceback))
        else:
            sys.stderr.write(traceback or "")
            if session.as_json:
                sys.stderr.write(error_report.render_json(error))
            else:
                sys.stderr.write(error_report.render_block(error, color=session.color_on_stderr))
        sys.stderr.flush()
        sys.stdout.flush()
    except OSError:  # no reader, or a full disk: the exit code still says what happened
        _drop_output()
    return error.exit_code


def _announce_as_event(session: Session) -> bool:
    """Say that the command stops to who reads events; called by a signal handler."""
    if not _tells_events(session):
        return False
    from dis_command.progress.json_lines import stopping_line, utc_now

    try:
        os.write(2, stopping_line(stopping.MESSAGE, utc_now()).encode())
    except OSError:
        return False
    return True


def _tells_events(session: Session) -> bool:
    try:
        return session.tells_events
    except InvalidInputError:  # the settings may be what is wrong
        return False


def _drop_output() -> None:
    """Let nobody write to a stream that takes nothing again, the interpreter at its end included."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(null, stream.fileno())


class _StopSignals:
    """Ctrl-C and SIGTERM: the first asks the work to stop, the second Ctrl-C ends the process at once.

    Ending at once is safe: the store is written so that a crash leaves nothing but files that the next start removes.
    """

    def __init__(self) -> None:
        self.terminated = False
        self._asked = False
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.terminated = self.terminated or number == signal.SIGTERM
        if self._asked:
            os._exit(TERMINATED if self.terminated else INTERRUPTED)
        self._asked = True
        stopping.ask()
        stopping.announce()
        raise KeyboardInterrupt


if __name__ == "__main__":
    main()
