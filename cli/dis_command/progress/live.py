"""Progress on a terminal: a frame that is painted over while the work goes on, and nothing of it afterwards."""

import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TextIO, cast

from dis_command.progress.canvas import Canvas
from dis_command.progress.frame import FRAMES_PER_SECOND, Line, frame, style_for
from dis_command.progress.lines import ending_line, remark_line
from dis_command.progress.outlet import Outlet
from dis_command.progress.tracking import Work
from dis_command.stopping import MESSAGE, announced_by
from dis_command.terminal import printable
from dis_derivations.realisation.events import Event

_FRAME_SECONDS = 1 / FRAMES_PER_SECOND
_USUAL_SIZE = os.terminal_size((80, 24))


def terminal_size(stream: TextIO) -> os.terminal_size:
    """Return the size of the terminal behind a stream, or the usual one where it has none."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return _USUAL_SIZE
    return size if size.columns and size.lines else _USUAL_SIZE


class LiveProgress:
    """Paints frames; a context manager.

    One thread paints, and nobody else: others only leave word of what happened. So a frame is never torn by Ctrl-C,
    which reaches the main thread, and no event waits for a slow terminal. The thread sleeps while nothing goes on.

    Args:
        stream: A terminal.
        verbose: Whether every line of every build stays on the screen, and what was not built as well.
        color: Whether to colour.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        verbose: bool,
        color: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._outlet = Outlet(stream)
        self._verbose = verbose
        self._style = style_for(stream.encoding, color=color)
        self._work = Work(clock)
        self._canvas = Canvas()
        self._above: list[str] = []
        self._changed = threading.Condition()
        self._dirty = False
        self._stopping = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._paint, name="dis-progress", daemon=True)
        self._announcement = announced_by(self._announce_stop)
        self._between = _Between(self, stream)

    def __enter__(self) -> Self:
        self._announcement.__enter__()
        if sys.stderr is self._stream:
            sys.stderr = cast("TextIO", self._between)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._announcement.__exit__(None, None, None)
        if sys.stderr is cast("TextIO", self._between):
            sys.stderr = self._stream
        self._between.finish()
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        try:
            self._thread.join()
        except KeyboardInterrupt:
            self._thread.join()  # what is written next must not meet a frame
            raise

    def __call__(self, event: Event) -> None:
        """Leave word of one event."""
        with self._changed:
            task = self._work.take(event)
            is_build = task is None or task.is_build
            match event.kind:
                case "note" | "waiting":
                    self._above.append(remark_line(event))
                case "done" | "failed" | "skipped" if is_build:
                    self._above.append(ending_line(event))
                case "cached" if self._verbose:
                    self._above.append(ending_line(event))
                case "progress" if self._verbose and not event.measures:
                    self._above.append(remark_line(event))
                case _:
                    pass
            self._wake()

    def keep(self, lines: list[str]) -> None:
        """Let lines that somebody else wrote stay above the frame."""
        with self._changed:
            self._above += lines
            self._wake()

    def _wake(self) -> None:
        self._dirty = True
        self._changed.notify_all()

    def _announce_stop(self) -> bool:
        """Show that the work is asked to stop; called by a signal handler, so nothing is locked here."""
        self._stopping = True
        return self._canvas.drawn

    def _paint(self) -> None:
        closing = False
        while not closing:
            with self._changed:
                # While a frame is on the screen its times go on; without one there is nothing to wake for.
                self._changed.wait_for(
                    lambda: self._dirty or self._closing.is_set() or self._work.tasks,
                    timeout=_FRAME_SECONDS if self._canvas.drawn else None,
                )
                closing = self._closing.is_set()
                size = terminal_size(self._stream)
                lines = [] if closing else self._frame(size)
                above, self._above, self._dirty = self._above, [], False
                text = self._canvas.paint(above, lines, columns=size.columns, rows=size.lines)
            self._outlet.write(text)
            self._closing.wait(_FRAME_SECONDS)

    def _frame(self, size: os.terminal_size) -> list[Line]:
        return frame(
            self._work,
            columns=size.columns,
            rows=size.lines,
            style=self._style,
            stopping=MESSAGE if self._stopping else "",
        )


class _Between:
    """Takes the place of stderr while there is a frame, so that what others write does not run into it."""

    def __init__(self, live: LiveProgress, stream: TextIO) -> None:
        self._live = live
        self._stream = stream
        self._rest = ""
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._rest = (self._rest + text).split("\n")
        if lines:
            self._live.keep([printable(line) for line in lines])
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        """Nothing: a line is shown when it is complete."""

    def finish(self) -> None:
        if self._rest:
            self.write("\n")
