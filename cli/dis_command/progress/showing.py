"""The way in which progress is shown: chosen by options and terminal, and begun with the first event."""

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from dis_command.session import Session
    from dis_derivations.realisation.events import Event, Reporter


class Progress:
    """A reporter that begins to show when there is something to show; a context manager.

    A call that finds everything done loads no code for showing, and starts no thread.
    """

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._stack = ExitStack()
        self._shown: Reporter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def __call__(self, event: "Event") -> None:
        """Show one event."""
        if self._shown is None:
            self._shown = self._stack.enter_context(
                _ways()[self._session.progress_way](self._session)
            )
        self._shown(event)


def _ways() -> dict[str, "Callable[[Session], AbstractContextManager[Reporter]]"]:
    return {"tty": _live, "plain": _plain, "json": _json}


def _live(session: "Session") -> "AbstractContextManager[Reporter]":
    import sys

    from dis_command.progress.live import LiveProgress

    return LiveProgress(sys.stderr, verbose=bool(session.verbose), color=session.color_on_stderr)


def _plain(session: "Session") -> "AbstractContextManager[Reporter]":
    import sys

    from dis_command.progress.plain import PlainProgress

    return PlainProgress(sys.stderr, verbose=bool(session.verbose))


def _json(session: "Session") -> "AbstractContextManager[Reporter]":
    import sys

    from dis_command.progress.json_lines import JsonProgress

    del session
    return JsonProgress(sys.stderr)
