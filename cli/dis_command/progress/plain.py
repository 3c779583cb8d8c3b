"""Progress as lines of a log: when something begins, when it ends, and now and then in between."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TextIO

from dis_command.progress.amounts import BYTES
from dis_command.progress.lines import ending_line, remark_line, standing_line, starting_line
from dis_command.progress.outlet import Outlet
from dis_command.progress.tracking import Task, Work
from dis_derivations.realisation.events import Event

# A log without a line for longer than this looks like a hang, to people and to CI systems.
SECONDS_BETWEEN_LINES = 10.0
# A tenth of a transfer is worth a line as well, unless it came faster than a line can be read.
SHARE_BETWEEN_LINES = 0.1
SHORTEST_SECONDS_BETWEEN_LINES = 2.0
_TICK_SECONDS = 1.0


@dataclass
class _Shown:
    """What was last said about a task: when, and how far it was then. `silent` until its beginning was told."""

    at: float
    share: float = 0.0
    silent: bool = False


class PlainProgress:
    """Writes lines; a context manager.

    Builds are told of when they begin. Other work, such as reading the files of a lock, is told of
    only when it takes a while.

    Args:
        stream: Where to.
        verbose: Whether every line of every build is written, and what was not built as well.
        clock: Seconds that never go back.
    """

    def __init__(
        self, stream: TextIO, *, verbose: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._outlet = Outlet(stream)
        self._verbose = verbose
        self._work = Work(clock)
        self._shown: dict[str, _Shown] = {}
        self._changed = threading.Condition(threading.RLock())
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def __call__(self, event: Event) -> None:
        """Write what one event is worth."""
        with self._changed:
            task = self._work.take(event)
            match event.kind:
                case "note":
                    self._write(remark_line(event))
                case "done" | "end" | "failed" | "cached" | "skipped":
                    self._end(event)
                case "progress" if task is not None:
                    self._go_on(event, task)
                case "start" | "waiting" | "begin" if task is not None:
                    self._begin(event, task)
                case _:  # a plan is no news to a log
                    pass
            self._changed.notify_all()
        if self._thread is None and self._work.tasks:
            self._thread = threading.Thread(target=self._watch, name="dis-progress", daemon=True)
            self._thread.start()

    def tick(self) -> None:
        """Say of every task how far it is, if nothing was said about it for a while."""
        with self._changed:
            for task in self._work.tasks.values():
                self._say_if_due(task)

    def _watch(self) -> None:
        while not self._closing.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._work.tasks or self._closing.is_set())
            if not self._closing.wait(_TICK_SECONDS):
                self.tick()

    def _begin(self, event: Event, task: Task) -> None:
        self._shown[task.subject] = _Shown(self._work.now(), silent=not task.is_build)
        if event.kind == "waiting":
            self._write(remark_line(event))
        elif task.is_build:
            self._write(starting_line(task))

    def _go_on(self, event: Event, task: Task) -> None:
        if event.measures:
            self._say_if_due(task)
        elif self._verbose or self._is_due(task):
            self._note_shown(task)
            self._write(remark_line(event))

    def _end(self, event: Event) -> None:
        shown = self._shown.pop(event.subject, None)
        if (shown is not None and shown.silent) or (event.kind == "cached" and not self._verbose):
            return
        self._write(ending_line(event))

    def _say_if_due(self, task: Task) -> None:
        if not self._is_due(task):
            return
        begins = self._shown_of(task).silent
        self._note_shown(task)
        self._write(starting_line(task) if begins else standing_line(task, self._work.now()))

    def _is_due(self, task: Task) -> bool:
        shown = self._shown_of(task)
        silence = self._work.now() - shown.at
        if silence >= SECONDS_BETWEEN_LINES:
            return True
        if silence < SHORTEST_SECONDS_BETWEEN_LINES:
            return False
        moves = bool(task.measures) and task.measures[0].unit == BYTES
        return shown.silent or (moves and (task.share or 0.0) - shown.share >= SHARE_BETWEEN_LINES)

    def _shown_of(self, task: Task) -> _Shown:
        return self._shown.setdefault(task.subject, _Shown(task.since))

    def _note_shown(self, task: Task) -> None:
        self._shown[task.subject] = _Shown(self._work.now(), task.share or 0.0)

    def _write(self, line: str) -> None:
        self._outlet.write(f"{line}\n")
