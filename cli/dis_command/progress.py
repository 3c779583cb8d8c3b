"""Progress of a realisation on stderr: plain lines for logs, one status line on a terminal."""

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from dis_command.terminal import one_line

if TYPE_CHECKING:
    from dis_derivations.realisation.events import Event

# A log without a line for longer than this looks like a hang, to people and to CI systems.
SECONDS_BETWEEN_LINES = 10.0
_REFRESH_SECONDS = 1.0
_MINUTE = 60


@dataclass
class _Running:
    """A build that has begun: since when, what it said last, and when a line was last printed for it."""

    since: float
    text: str = ""
    shown_at: float = 0.0


class Progress:
    """Shows the events of a realisation; a context manager.

    Args:
        stream: Where to.
        status_line: Whether a last line is rewritten in place, as only a terminal can.
        verbose: Whether every line of every build is shown, and what was not built as well.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        status_line: bool,
        verbose: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._status_line = status_line
        self._verbose = verbose
        self._clock = clock
        self._running: dict[str, _Running] = {}
        self._lock = threading.RLock()
        self._finished = threading.Event()
        self._thread: threading.Thread | None = None
        self._drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._finished.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._erase()
            self._stream.flush()

    def __call__(self, event: "Event") -> None:
        """Show one event."""
        with self._lock:
            self._take(event)
            self._draw()
            self._stream.flush()
        if event.kind == "start" and self._thread is None:
            self._thread = threading.Thread(target=self._refresh, name="dis-progress", daemon=True)
            self._thread.start()

    def tick(self) -> None:
        """Say that a build is still going on, if nothing was said about it for a while."""
        with self._lock:
            now = self._clock()
            for subject, build in self._running.items():
                if not self._status_line and now - build.shown_at >= SECONDS_BETWEEN_LINES:
                    build.shown_at = now
                    self._print(
                        f"{subject}: {build.text or 'building'} ({_seconds(now - build.since)})"
                    )
            self._draw()
            self._stream.flush()

    def _refresh(self) -> None:
        while not self._finished.wait(_REFRESH_SECONDS):
            self.tick()

    def _take(self, event: "Event") -> None:
        subject, text = one_line(event.subject), one_line(event.text)
        took = f" in {_seconds(event.seconds)}" if event.seconds is not None else ""
        match event.kind:
            case "start":
                self._running[event.subject] = _Running(self._clock(), shown_at=self._clock())
                self._print(f"{subject}: building")
            case "progress":
                self._took_progress(event.subject, text)
            case "done":
                self._running.pop(event.subject, None)
                self._print(f"{subject}: built{took}")
            case "failed":
                self._running.pop(event.subject, None)
                self._print(f"{subject}: failed{took}: {text}")
            case "skipped":
                self._print(f"{subject}: skipped: {text}")
            case "waiting":
                self._print(f"{subject}: waiting: {text}")
            case "cached":
                if self._verbose:
                    self._print(f"{subject}: already built")
            case "note":
                self._print(f"note: {subject}: {text}")

    def _took_progress(self, subject: str, text: str) -> None:
        build = self._running.setdefault(subject, _Running(self._clock()))
        build.text = text
        now = self._clock()
        due = now - build.shown_at >= SECONDS_BETWEEN_LINES
        if self._verbose or (due and not self._status_line):
            build.shown_at = now
            self._print(f"{one_line(subject)}: {text}")

    def _print(self, line: str) -> None:
        self._erase()
        self._stream.write(f"{line}\n")

    def _erase(self) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._drawn = False

    def _draw(self) -> None:
        if not self._status_line or not self._running:
            return
        now = self._clock()
        parts = [
            f"{one_line(subject)}: {build.text or 'building'} ({_seconds(now - build.since)})"
            for subject, build in self._running.items()
        ]
        width = shutil.get_terminal_size().columns - 1
        self._erase()
        self._stream.write(" | ".join(parts)[:width])
        self._drawn = True


def _seconds(seconds: float) -> str:
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), _MINUTE)
    return f"{minutes} min {rest:02d} s"
