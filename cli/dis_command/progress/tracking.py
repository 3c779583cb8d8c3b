"""What is going on, as far as events tell: the state behind every way of showing progress.

Pure: no I/O, and the clock is given.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from dis_command.progress.amounts import BYTES, share_of
from dis_derivations.realisation.events import Event, Measure

# Rates are those of the last seconds: long enough not to flicker, short enough to show that a disk has stalled.
WINDOW_SECONDS = 10.0
_SHORTEST_SECONDS = 0.5


class Window:
    """How fast an amount has grown lately."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, now: float, amount: int) -> None:
        """Note the amount at a time; one that has become less begins anew."""
        if self._samples and amount < self._samples[-1][1]:
            self._samples.clear()
        self._samples.append((now, amount))
        self._forget(now)

    def rate(self, now: float) -> float | None:
        """Return the growth in a second; None while it is too early to tell."""
        self._forget(now)
        if not self._samples:
            return None
        since, amount = self._samples[0]
        if now - since < _SHORTEST_SECONDS:
            return None
        return (self._samples[-1][1] - amount) / (now - since)

    def _forget(self, now: float) -> None:
        # The newest sample from before the window stays: it says how much there was when the window began.
        while len(self._samples) > 1 and self._samples[1][0] <= now - WINDOW_SECONDS:
            self._samples.popleft()


@dataclass
class Task:
    """A piece of work that goes on.

    Attributes:
        since: When it began.
        is_build: Whether it is a build, and not other work such as reading files.
        text: What it said last.
        doing: The measured part of the work, where one is measured.
        measures: How much of it is done.
    """

    subject: str
    since: float
    is_build: bool = True
    text: str = ""
    doing: str = ""
    measures: tuple[Measure, ...] = ()
    _windows: dict[str, Window] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """Take a line of its log; a measured part that has come to its end is over with it."""
        self.text = text
        if self.measures and self.measures[0].complete:
            self.measures, self.doing = (), ""

    def measure(self, event: Event, now: float) -> int:
        """Take the measures of an event; return how many more bytes were moved than was known."""
        before = {measure.unit: measure.done for measure in self.measures}
        if event.text != self.doing:
            before, self._windows, self.doing = {}, {}, event.text
            if not self.is_build:
                self.text = event.text
        self.measures = event.measures
        moved = 0
        for measure in event.measures:
            self._windows.setdefault(measure.unit, Window()).add(now, measure.done)
            if measure.unit == BYTES:
                moved += max(0, measure.done - before.get(BYTES, 0))
        return moved

    @property
    def share(self) -> float | None:
        """What part is done, between 0 and 1; None where there is no total."""
        return share_of(self.measures[0]) if self.measures else None

    def rate(self, now: float) -> tuple[str, float] | None:
        """Return unit and growth in a second of the last measure, which is the finest; None if it is not known."""
        if not self.measures:
            return None
        unit = self.measures[-1].unit
        rate = self._windows[unit].rate(now)
        return None if rate is None else (unit, rate)

    def remaining(self, now: float) -> float | None:
        """Return the seconds until the end at the present rate; None where nobody can tell."""
        total = self.measures[0].total if self.measures else None
        if total is None:
            return None
        rate = self._windows[self.measures[0].unit].rate(now)
        return max(0, total - self.measures[0].done) / rate if rate else None


class Work:
    """All that goes on: builds planned and finished, bytes moved, and the tasks of this moment.

    Args:
        clock: Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.since = clock()
        self.tasks: dict[str, Task] = {}
        self.planned = 0
        self.finished = 0
        self.failed = 0
        self.bytes = 0

    def now(self) -> float:
        """Return the time."""
        return self._clock()

    def take(self, event: Event) -> Task | None:
        """Follow one event; return the task that it is about, which may have ended with it."""
        now = self.now()
        match event.kind:
            case "plan":
                self.planned += sum(measure.total or 0 for measure in event.measures)
            case "start" | "waiting" | "begin":
                waits = event.kind == "waiting"
                text = f"waiting: {event.text}" if waits else event.text
                task = Task(event.subject, now, is_build=event.kind != "begin", text=text)
                self.tasks[event.subject] = task
            case "progress":
                task = self.tasks.setdefault(event.subject, Task(event.subject, now))
                if event.measures:
                    self.bytes += task.measure(event, now)
                else:
                    task.say(event.text)
            case "done" | "end" | "failed" | "cached" | "skipped":
                return self._end(event)
            case "note":
                return None
        return self.tasks.get(event.subject)

    def _end(self, event: Event) -> Task | None:
        task = self.tasks.pop(event.subject, None)
        if task is None or task.is_build:
            self.finished = min(self.finished + 1, self.planned)
            self.failed += event.kind == "failed"
        return task
